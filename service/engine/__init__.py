"""The engine process as the service sees it: started, watched, spoken to."""

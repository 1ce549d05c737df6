"""Who takes part: what each can do (`baseline`), how it is asked, and all of them (`lineup`)."""

"""Who takes part: what each can do (`contender`), how it is asked, and all of them (`field`)."""

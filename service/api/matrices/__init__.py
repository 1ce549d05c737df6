"""Stored matrices: `matrices` has the routes, and stores what is uploaded.

`download` sends from the arena or from the file, whole or in part, by the request's conditions.
"""

"""The data folder: one service's, and its user's alone (umask 077).

- `data_folder` claims it. It shares an id with its database (`identity`).
- `sweep` removes at a start only what is proved to be unfinished. A whole file that the database
  does not know goes to lost/ (`lost`), and `adoption` takes it in again.
- `backup` copies all of it, while the service runs.
"""

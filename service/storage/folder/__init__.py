"""The data folder: it belongs to one service, and to its user alone (umask 077).

- `data_folder` claims it. It has the same id as its database (`identity`).
- At a start `sweep` removes only what is certainly unfinished. Complete files that the database
  does not know go to lost/, from where `adoption` takes them in again.
- `backup` copies all of it while the service runs.
"""

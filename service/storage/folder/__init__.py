"""The data folder: it belongs to one service, and to its user alone (umask 077).

- `data_folder` claims it, and gives it the same id as its database.
- At a start `lost_files` removes only what is certainly unfinished. Complete files that the
  database does not know go to lost/, from where they are adopted.
- `backup` copies all of it while the service runs.
"""

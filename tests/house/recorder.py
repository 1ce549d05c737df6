"""Notes which functions run in this process. Used by `sitecustomize`, in processes of their own.

The interpreter tells of each call of a Python function, in all threads that start later. A thread
answers on a Unix socket, `{folder}/{pid}.sock`: "clear" forgets, "list" answers with what has run
since, as JSON of (file, function).
"""

import json
import os
import socket
import sys
import threading

_seen = set()


def start(folder):
    """Note calls from now on, and answer on the socket in the folder."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(folder / f"{os.getpid()}.sock"))
    listener.listen()
    threading.Thread(target=_answer, args=(listener,), daemon=True).start()
    threading.setprofile(_note)
    sys.setprofile(_note)


def clear():
    _seen.clear()


def list_functions():
    """What has run since: (file, function), without modules, lambdas and comprehensions."""
    return sorted(
        (os.path.realpath(code.co_filename), code.co_qualname)
        for code in _seen.copy()
        if not code.co_name.startswith("<") and not code.co_filename.startswith("<")
    )


def _note(frame, event, _argument):
    if event == "call":
        _seen.add(frame.f_code)


def _answer(listener):
    while True:
        connection, _ = listener.accept()
        with connection, connection.makefile("rw") as file:
            if file.readline().strip() == "clear":
                clear()
                file.write("[]\n")
            else:
                file.write(json.dumps(list_functions()) + "\n")

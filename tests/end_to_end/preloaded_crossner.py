"""``crossner`` in a process forked from one that has its libraries loaded: a recipe calls it a dozen times.

``python preloaded_crossner.py serve SOCKET`` loads and waits; ``python preloaded_crossner.py call SOCKET ARGUMENT …``
has a command run with this process's directory, environment and streams, and ends with its exit status.
"""

import json
import os
import signal
import socket
import sys
import traceback

FRAME = 2**20  # bytes of arguments and environment


def serve(path: str) -> None:
    """Load everything once, then fork a process a call."""
    import accelerate  # noqa: F401
    import pandas  # noqa: F401
    import torch  # noqa: F401
    import transformers  # noqa: F401

    import crossner_cli.stages.dapt
    import crossner_cli.stages.evaluate
    import crossner_cli.stages.predict
    import crossner_cli.stages.prepare_data
    import crossner_cli.stages.report
    import crossner_cli.stages.train  # noqa: F401

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the calls
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.bind(path)
        server.listen()
        while True:
            connection, _ = server.accept()
            if os.fork() == 0:
                server.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                answer(connection)
            connection.close()


def answer(connection: socket.socket) -> None:
    """Be the called command, and end with this process."""
    text, streams, _, _ = socket.recv_fds(connection, FRAME, 3)
    wanted = json.loads(text)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(wanted["folder"])
    os.environ.clear()
    os.environ.update(wanted["environment"])
    sys.argv = ["crossner", *wanted["arguments"]]
    status = 1
    try:
        from crossner_cli.cli import main

        main()
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    connection.sendall(bytes([status]))
    os._exit(status)


def call(path: str, arguments: list[str]) -> int:
    """Have a command run; its exit status, 1 where its process was lost."""
    folder = os.getcwd()  # noqa: PTH109 - pathlib takes longer to load than all the rest
    wanted = {"arguments": arguments, "folder": folder, "environment": dict(os.environ)}
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(path)
        socket.send_fds(connection, [json.dumps(wanted).encode()], [0, 1, 2])
        found = connection.recv(1)
    return found[0] if found else 1


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2])
    else:
        sys.exit(call(sys.argv[2], sys.argv[3:]))

"""A process between a Ray worker and its node process: it starts node, and ends with the first of them.

Ray kills a worker and its direct children with SIGKILL, which would leave node's own children and temporary files. The
keeper is not a child of the worker (it forks away), and notices the worker's end by a pipe that closes.

    python keeper.py LIFE STATUS OUT UP DOWN command...    the first five are pipes; the worker's spec comes on stdin
"""
import contextlib
import fcntl
import json
import os
import shutil
import signal
import sys
import tempfile
import threading


def keep(life, status, out, up, down, command):
    content = json.load(sys.stdin)  # before the fork: the parent waits for that
    if os.fork():
        os._exit(0)
    os.setsid()
    folder = tempfile.mkdtemp(prefix="tsxla-worker-")
    spec = os.path.join(folder, "spec.json")
    content["storage"] = content["storage"] or folder  # a run stored in a bucket has no folder
    with open(spec, "w") as file:
        json.dump(content, file)
    env = {**os.environ, "TMPDIR": folder, "TSXLA_TRAIN_SPEC": spec}
    node = os.fork()
    if node == 0:
        os.setpgid(0, 0)  # so that node's children end with it
        # Duplicated to 10 and above first: one of these may be 3 or 4 itself.
        out, up, down = (fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in (out, up, down))
        for source, target in ((out, 1), (out, 2), (up, 3), (down, 4)):
            os.dup2(source, target)
        os.closerange(5, 256)
        try:
            os.execvpe(command[0], command, env)
        except OSError as error:
            os.write(2, f"{command[0]}: {error}\n".encode())
            os._exit(127)
    for fd in (out, up, down):
        os.close(fd)

    def end_node_with_worker():
        os.read(life, 1)  # nothing is ever written: returns when the worker is gone
        with contextlib.suppress(ProcessLookupError):
            os.killpg(node, signal.SIGKILL)

    threading.Thread(target=end_node_with_worker, daemon=True).start()
    _, ended = os.waitpid(node, 0)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(node, signal.SIGKILL)
    shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(BrokenPipeError):
        os.write(status, str(os.waitstatus_to_exitcode(ended)).encode())
    os._exit(0)


if __name__ == "__main__":
    keep(*(int(fd) for fd in sys.argv[1:6]), sys.argv[6:])

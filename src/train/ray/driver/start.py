"""Prepares a group of workers before it starts: finds their machines, checks what is missing, and sets their environment."""
import fcntl
import hashlib
import importlib.util
import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import threading

import ray
from ray.train.backend import Backend, BackendConfig


class Over(RuntimeError):
    """No new group of workers may begin; the message says why."""


class Missing(RuntimeError):
    """Something is missing on the workers; the message has a sentence for each machine."""


def where(sums):
    """Describes the machine of a worker. If the worker will reduce gradients, torch is imported in the background meanwhile."""
    torch = importlib.util.find_spec("torch") is not None
    if sums and torch:
        threading.Thread(target=importlib.import_module, args=("torch",), daemon=True).start()
    with socket.socket() as probe:
        probe.bind(("", 0))
        port = probe.getsockname()[1]
    labels = {}
    node = ray.get_runtime_context().get_node_id()
    for known in ray.nodes():
        if known["NodeID"] == node:
            labels = known.get("Labels") or {}
    tpu = labels.get("ray.io/tpu-worker-id", os.environ.get("TPU_WORKER_ID"))
    return {
        "host": ray.util.get_node_ip_address(),
        "port": port,
        "node": node,
        "slice": labels.get("ray.io/tpu-slice-name", os.environ.get("TPU_NAME", "")),
        "tpu": None if tpu is None else int(tpu),
        "torch": torch,
    }


def environments(places, request, attempt):
    """The environment of each worker, in Ray's order. On TPUs ranks are sorted by slice, then by the worker's number in it, so
    that the order of processes is the order of the slice's chips; otherwise they are Ray's."""
    tpu = request["device"] == "tpu"
    order = list(range(len(places)))
    if tpu:
        order.sort(key=lambda i: (places[i]["slice"], places[i]["tpu"] if places[i]["tpu"] is not None else i, i))
    ranked = [places[i] for i in order]
    nodes = list(dict.fromkeys(place["node"] for place in ranked))
    slices = list(dict.fromkeys(place["slice"] for place in ranked))
    result = [{}] * len(places)
    for rank, (i, place) in enumerate(zip(order, ranked)):
        local = [r for r, other in enumerate(ranked) if other["node"] == place["node"]]
        env = {
            "RANK": rank,
            "WORLD_SIZE": len(places),
            "LOCAL_RANK": local.index(rank),
            "LOCAL_WORLD_SIZE": len(local),
            "NODE_RANK": nodes.index(place["node"]),
            "MASTER_ADDR": ranked[0]["host"],
            "MASTER_PORT": ranked[0]["port"],
            "PJRT_DEVICE": request["device"].upper(),
            "TSXLA_ATTEMPT": attempt,
        }
        if tpu:
            peers = [other for other in ranked if other["slice"] == place["slice"]]
            env["XLA_USE_SPMD"] = 1
            env["TPU_WORKER_ID"] = place["tpu"] if place["tpu"] is not None else peers.index(place)
            # One name for each host; workers on one host are distinguished by their number in the slice.
            env["TPU_WORKER_HOSTNAMES"] = ",".join({(peer["tpu"], peer["node"]): peer["host"] for peer in peers}.values())
            if len(slices) > 1:
                from ray.util.tpu import get_tpu_coordinator_env_vars

                env.update(get_tpu_coordinator_env_vars(ranked[0]["host"], len(slices), slices.index(place["slice"])))
        result[i] = {name: str(value) for name, value in env.items()}
    return result


CHECK = """
const [device, install, found] = process.argv.slice(1);
let plugins;
try { plugins = await import('tsxla/plugins'); } catch (e) {
  if (!/^ERR_(MODULE|PACKAGE)/.test(e.code ?? '')) throw e;
  console.log(`the package tsxla is not found (${e.message.split('\\n')[0]})`);
  process.exit();
}
if (device) await plugins.findPlugin(device, { fetch: install === 'true' }).catch((e) => console.log(e.message));
"""


LINKED = "tsxla_package"  # a tsxla that the project links to on the submitting machine: its built package, in the upload


def state_of(*paths):
    """A hash of the content of files and folders."""
    state = hashlib.sha256()
    for path in paths:
        inner = (os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names)
        for file in [path] if os.path.isfile(path) else sorted(inner):
            with open(file, "rb") as opened:
                content = opened.read()
            state.update(f"{file}\0{len(content)}\0".encode() + content)
    return state.hexdigest()[:16]


def npm(folder, *args):
    done = subprocess.run(["npm", *args, "--no-audit", "--no-fund"], cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"npm {args[0]} failed: {done.stderr.strip()[-500:]}")


def modules_folder(request):
    """This worker's folder of npm packages: the requested one, one uploaded with the project, the path on the submitting machine
    (a shared disk), or one installed from the lock file, once for each machine. None if there is none."""
    packed = None if os.path.islink("node_modules") else os.path.abspath("node_modules")  # a link was made by an earlier run
    for folder in (request.get("modules"), packed, request.get("own_modules")):
        if folder and os.path.isdir(folder):
            return folder
    if not os.path.exists("package-lock.json"):
        return None
    lock = state_of("package-lock.json", LINKED)
    cache = {**os.environ, **request["env"]}.get("TSXLA_CACHE_DIR") or os.path.join(os.path.expanduser("~"), ".cache", "tsxla")
    folder = os.path.join(cache, "ray", lock)
    if request["install"] and not os.path.isdir(folder):
        os.makedirs(os.path.dirname(folder), exist_ok=True)
        with open(f"{folder}.lock", "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # one worker of each machine installs
            if not os.path.isdir(folder):
                aside = tempfile.mkdtemp(dir=os.path.dirname(folder))
                # The whole project: the lock file may refer to its files, and .npmrc has the registry.
                shutil.copytree(".", aside, ignore=shutil.ignore_patterns("node_modules"), dirs_exist_ok=True)
                try:
                    npm(aside, "ci")
                    if os.path.isdir(os.path.join(aside, LINKED)):
                        npm(aside, "install", "--no-save", "--no-package-lock", "--install-links", f"./{LINKED}")
                except RuntimeError:
                    shutil.rmtree(aside, ignore_errors=True)
                    raise
                os.rename(aside, folder)
    modules = os.path.join(folder, "node_modules")
    return modules if os.path.isdir(modules) else None


def prepare(request):
    """Runs on each worker: returns a sentence about what is missing, or an empty string."""
    node = shutil.which("node")
    if node is None:
        return "node is not on the PATH: install Node 20 or later there"
    version = subprocess.run([node, "--version"], capture_output=True, text=True).stdout.strip()
    if int(version[1:].split(".")[0]) < 20:
        return f"node is {version}, but tsxla needs Node 20 or later"
    try:
        modules = modules_folder(request)
    except (RuntimeError, OSError) as error:
        return str(error)
    if modules and modules != os.path.abspath("node_modules"):
        aside = f".node_modules-{os.getpid()}"
        os.symlink(modules, aside)
        os.replace(aside, "node_modules")  # node looks for packages in the script's folder and above
    check = [node, "--input-type=module", "-e", CHECK, request.get("check") or "", str(request["install"]).lower()]
    done = subprocess.run(check, capture_output=True, text=True, env={**os.environ, **request["env"]})
    lacks = done.stdout.strip() or (done.stderr.strip()[-500:] if done.returncode else "")
    return lacks


def set_environment(env):
    os.environ.update(env)


class NodeBackend(Backend):
    """Runs in ray.train's controller whenever a group of workers starts."""

    def on_start(self, workers, config):
        places = workers.execute(where, config.request["spec"]["reduce"] == "engine")
        lacks = {}
        for place, problem in zip(places, workers.execute(prepare, config.request)):
            if problem:
                lacks[place["host"]] = problem
        if lacks:
            raise Missing("; ".join(f"{host}: {problem}" for host, problem in lacks.items()))
        attempt = ray.get(config.desk.begin.remote(len(places)))
        if isinstance(attempt, str):
            raise Over(attempt)
        gloo = "1" if all(place["torch"] for place in places) else ""
        common = {"TSXLA_GLOO": gloo, "TSXLA_RENDEZVOUS_TOKEN": secrets.token_hex(16)}
        for i, env in enumerate(environments(places, config.request, attempt)):
            workers.execute_single(i, set_environment, {**env, **common})

    def on_shutdown(self, workers, config):
        ray.get(config.desk.end.remote())


class NodeConfig(BackendConfig):
    def __init__(self, request, desk):
        self.request, self.desk = request, desk

    @property
    def backend_cls(self):
        return NodeBackend

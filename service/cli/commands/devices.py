"""`wavetrim devices`: the GPUs that can be planned for, and a service's nodes."""

from collections.abc import Iterable
from dataclasses import asdict

from rich.table import Table

from wavetrim.kernels.device import explain_no_devices
from wavetrim.scheduler.profile.machine import GpuModel
from wavetrim.scheduler.profile.presets import PRESETS, describe_gpu
from wavetrim.service.cli import display, options
from wavetrim.service.cli.client import ServiceOptions
from wavetrim.service.cli.machine import find_machine


def devices(
    *, url: str | None = None, api_key: options.ApiKey = None, as_json: options.Json = False
) -> None:
    """List GPUs and CPU threads, and the presets of `plan --device`.

    With --url, the devices of that service and of the nodes of its cluster.

    Options:
        url (URL): A service: list its devices, and its cluster's nodes.

    Example:
        wavetrim devices
    """
    if url is not None:
        _list_service(url, api_key, as_json=as_json)
        return
    here = find_machine()
    local, profile = here.devices, here.find_profile()
    threads = here.settings.count_threads()
    reason = None if local else explain_no_devices(here.settings.devices)
    if as_json:
        document = {
            "devices": [asdict(info) for info in local],
            "no_gpu_reason": reason,
            "cpu_threads": threads,
            "profile": {
                "device": profile.device,
                "source": profile.source,
                "measured_at": profile.measured_at,
            },
            "presets": [asdict(preset) for preset in PRESETS],
        }
        display.print_json(document)
        return
    output = display.open_output()
    if local:
        named = [(f"cuda:{info.index} {info.name}", describe_gpu(info)) for info in local]
        output.print(_make_table("GPUs of this machine", named))
        for info in local:
            output.print(f"cuda:{info.index}: {info.uuid}, driver {info.driver_version}")
    else:
        output.print(f"There is no GPU, and the CPU computes every row: {reason}.", markup=False)
    output.print(f"CPU threads: {threads}")
    output.print(f"profile: {profile.device}: {profile.source}", markup=False, soft_wrap=True)
    presets = [(preset.name, preset) for preset in PRESETS]
    output.print(_make_table("Presets", presets))


def _list_service(url: str, api_key: str | None, *, as_json: bool) -> None:
    with ServiceOptions(url=url, api_key=api_key).open() as client:
        found = client.devices()
    if as_json:
        display.print_json(found)
        return
    network = ("call", "GB/s in", "GB/s out")
    table = display.make_list(
        *("engine", "host", "GPUs", "threads", "profile", *network), wraps=True
    )
    for engine in (found | {"id": "here", "host": url.partition("://")[2] or url}, *found["nodes"]):
        gpus = ", ".join(gpu["name"] for gpu in engine["devices"]) or "none"
        profile = "estimate" if engine["profile"]["measured_at"] is None else "measured"
        cells = [engine["id"][:12], engine["host"], gpus, str(engine["cpu_threads"]), profile]
        if (way := engine.get("network")) is not None:
            cells.append(display.format_seconds(way["call_seconds"]))
            cells += (f"{way[f'{to}_bytes_per_second'] / 1e9:.2f}" for to in ("in", "out"))
        table.add_row(*cells)
    output = display.open_output()
    if (reason := found["no_gpu_reason"]) is not None:
        output.print(f"The service has no GPU: {reason}.", markup=False)
    output.print(table)


def _make_table(title: str, named: Iterable[tuple[str, GpuModel]]) -> Table:
    peaks = ("float32", "float64", "float64 tc", "float16 tc")
    numbers = ("SMs", "GiB", *peaks, "memory", "link")
    table = display.make_list("device", *numbers, right=numbers)
    table.title = f"{title}: peaks in TFLOP/s (tc: tensor cores), bandwidths in GB/s"
    table.title_style = "bold"
    for name, gpu in named:
        table.add_row(
            name,
            str(gpu.sm_count),
            f"{gpu.memory_bytes / 2**30:.0f}",
            f"{gpu.float32_gflops / 1e3:.1f}",
            f"{gpu.float64_gflops / 1e3:.1f}",
            f"{gpu.float64_tensor_gflops / 1e3:.1f}",
            f"{gpu.float16_tensor_gflops / 1e3:.0f}",
            f"{gpu.memory_gbytes_per_second:.0f}",
            f"{gpu.link_gbytes_per_second:g}",
        )
    return table

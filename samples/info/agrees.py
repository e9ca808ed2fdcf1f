# SPDX-License-Identifier: BSD-2-Clause
"""
Usage: agrees.py RDMAMSG-INFO

Compares what rdmamsg-info says of the devices of libibverbs with ibv_devices,
with rdma(8), and with the files below /sys/class/infiniband. Prints each
difference, and the number of compared values. Works for the devices of the
kernel, and under rdmamsg-soft for the soft HCA.
"""
import json
import os
import shutil
import subprocess
import sys

ROOT = "/sys/class/infiniband"


def output(*command):
    """Returns what a command prints."""
    return subprocess.run(command, check=True, stdout=subprocess.PIPE,
                          universal_newlines=True).stdout


def read(path):
    """Returns the text of a file, or None if it cannot be read."""
    try:
        with open(path, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return None


class Comparison:
    """Counts values and differences."""

    def __init__(self):
        self.values = self.bad = 0

    def same(self, what, ours, theirs):
        """Compares one value. A value that rdmamsg-info has not is None."""
        self.values += 1
        if ours != theirs:
            print(f"{what}: rdmamsg-info has {ours}, others have {theirs}")
            self.bad += 1


def compare_list(see, devices):
    """Compares with ibv_devices: names and GUIDs."""
    lines = [line.split() for line in output("ibv_devices").splitlines()[2:]]
    see.same("devices", sorted(
        (name, d["node_guid"].replace(":", ""))
        for name, d in devices.items()), sorted(map(tuple, lines)))


def compare_rdma(see, devices):
    """Compares with rdma(8)."""
    for d in json.loads(output("rdma", "-j", "dev")):
        ours = devices[d["ifname"]]
        see.same("rdma dev", ours["node_guid"], d["node_guid"])
        see.same("rdma dev", ours["sys_image_guid"], d["sys_image_guid"])
        if "fw" in d:  # Soft-RoCE has no firmware
            see.same("rdma dev", ours["fw_ver"], d["fw"])
        see.same("rdma dev", ours["node_type"]["name"].lower(), d["node_type"])
    links = json.loads(output("rdma", "-j", "link"))
    see.same("rdma link", sum(len(d["ports"]) for d in devices.values()),
             len(links))
    for link in links:
        port = devices[link["ifname"]]["ports"][link["port"] - 1]
        see.same("rdma link", port["state"]["name"], link["state"])
        if port["phys_state"]:
            see.same("rdma link", port["phys_state"]["name"],
                     link["physical_state"])
        for ours, theirs in (("port_lid", "lid"), ("sm_lid", "sm_lid")):
            if theirs in link:
                see.same("rdma link", port[ours], link[theirs])
    resources = {r["ifname"]: r for r in json.loads(
        output("rdma", "-j", "resource"))}
    see.same("rdma resource", sorted(devices), sorted(resources))
    # no object may exceed the limits
    for name, d in devices.items():
        for ours, theirs in (("max_qp", "qp"), ("max_cq", "cq"),
                             ("max_pd", "pd"), ("max_mr", "mr")):
            see.same("rdma resource", True,
                     resources[name][theirs] <= d[ours])


def gids_of(path):
    """Yields the entries of a port that are in use, as in show_gids."""
    for index in sorted(os.listdir(path + "/gids"), key=int):
        kind = read(f"{path}/gid_attrs/types/{index}")
        if kind:
            yield (index, read(f"{path}/gids/{index}"),
                   "IB" if kind.startswith("IB") else kind,
                   read(f"{path}/gid_attrs/ndevs/{index}") or "")


def compare_files(see, name, device):
    """Compares with the files of a device."""
    for port in device["ports"]:
        path = f"{ROOT}/{name}/ports/{port['port']}"
        see.same("state", f"{port['state']['code']}: {port['state']['name']}",
                 read(path + "/state"))
        see.same("link_layer", port["link_layer"], read(path + "/link_layer"))
        # on InfiniBand each process of the soft HCA has GIDs of its own
        if port["link_layer"] == "InfiniBand" and device["kind"] == "soft":
            continue
        # the files call RoCE v1 "IB/RoCE v1"
        see.same("gids", [(g["index"], g["gid"],
                           g["type"].replace("RoCE v1", "IB"),
                           g.get("netdev") or "") for g in port["gids"]],
                 list(gids_of(path)))
        for key in port["pkeys"]:
            see.same("pkeys", f"0x{key['pkey']:04x}",
                     read(f"{path}/pkeys/{key['index']}"))


def main():
    """Returns the exit status."""
    see = Comparison()
    devices = {d["device"]: d for d in json.loads(
        output(sys.argv[1], "-v", "--json"))["devices"]}
    devices = {name: d for name, d in devices.items()
               if os.path.isdir(f"{ROOT}/{name}")}
    compare_list(see, devices)
    if shutil.which("rdma"):
        compare_rdma(see, devices)
    for name, device in devices.items():
        compare_files(see, name, device)
    print(see.values, "values compared")
    return 1 if see.bad or see.values < 8 else 0


sys.exit(main())

"""GPU models: what a roofline and an occupancy need to know of one, from the device's attributes or from a table.

Bytes are bytes, MHz is 1e6 per second, GB/s is 1e9 bytes per second, MiB is 2**20 bytes.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass

from ..errors import UnknownNameError

KIB = 1024
PARTITIONED = (80, 90, 100)


@dataclass(frozen=True)
class Limits:
    """What an SM of one architecture holds: threads, blocks, 32-bit registers, shared memory in bytes.

    ``shared_per_block_optin`` is what one block may have after opting in (static and dynamic together), without
    the 1 KiB that the driver keeps for itself from compute capability 8.0 on.
    """

    threads_per_sm: int
    blocks_per_sm: int
    registers_per_sm: int
    shared_per_sm: int
    shared_per_block_optin: int


# CUDA Programming Guide, appendix "Compute Capabilities", tables of technical specifications and of shared memory;
# libcu++'s cuda/__device/arch_traits.h and cudaOccMaxBlocksPerMultiprocessor in cuda_occupancy.h 12.9 agree with it.
LIMITS = {
    "sm_75": Limits(1024, 16, 65536, 64 * KIB, 64 * KIB),
    "sm_80": Limits(2048, 32, 65536, 164 * KIB, 163 * KIB),
    "sm_86": Limits(1536, 16, 65536, 100 * KIB, 99 * KIB),
    "sm_89": Limits(1536, 24, 65536, 100 * KIB, 99 * KIB),
    "sm_90": Limits(2048, 32, 65536, 228 * KIB, 227 * KIB),
    "sm_100": Limits(2048, 32, 65536, 228 * KIB, 227 * KIB),
    "sm_120": Limits(1536, 24, 65536, 100 * KIB, 99 * KIB),
}


@dataclass(frozen=True)
class Gpu(Limits):
    """One GPU. ``memory_clock_mhz`` is the clock that transfers twice a cycle, as the device attribute gives it.

    ``sm_clock_mhz`` is the highest clock of the SMs that attribute or vendor names (boost). ``source`` says where the
    figures are from: "device attributes", or a citation.
    """

    name: str
    arch: str
    sms: int
    sm_clock_mhz: float
    memory_clock_mhz: float
    bus_bits: int
    l2_bytes: int
    source: str

    @property
    def peak_gbs(self) -> float:
        """Theoretical DRAM peak in GB/s: memory clock x 2 transfers x bus width / 8 bits a byte."""
        return self.memory_clock_mhz * 1e6 * 2 * self.bus_bits / 8 / 1e9

    @property
    def l2_partitions(self) -> int:
        """Parts of the L2 cache, each of which keeps copies of what its own SMs read from the other.

        Two in the data-centre architectures (NVIDIA A100 Tensor Core GPU Architecture, section "L2 cache"; H100 and
        B200 are built alike), else one.
        """
        return 2 if self.capability in PARTITIONED else 1

    @property
    def has_clusters(self) -> bool:
        """Whether it has thread-block clusters and distributed shared memory: sm_90 and newer (PTX ISA, "cluster")."""
        return self.capability >= 90

    @property
    def capability(self) -> int:
        """The architecture's number: 90 for "sm_90" and for its variant "sm_90a"."""
        return capability(self.arch)


def capability(arch: str) -> int:
    """The number in an architecture's name: "sm_90a" is 90. Errors: :class:`UnknownNameError`."""
    number = re.fullmatch(r"sm_(\d+)[af]?", arch)
    if number is None:
        raise UnknownNameError(
            f"{arch!r} is no architecture; one is named like sm_90, the table has {', '.join(LIMITS)}"
        )
    return int(number.group(1))


def limits(arch: str) -> Limits:
    """What an SM of ``arch`` holds. Errors: :class:`UnknownNameError` with the architectures of the table."""
    found = LIMITS.get(f"sm_{capability(arch)}")
    if found is None:
        raise UnknownNameError(f"no limits are known for {arch}; the table has {', '.join(LIMITS)}")
    return found


def _gpu(name: str, arch: str, sms: int, sm_clock: float, clock: float, bus: int, l2: int, source: str) -> Gpu:
    of_sm = dataclasses.asdict(limits(arch))
    return Gpu(
        name=name,
        arch=arch,
        sms=sms,
        sm_clock_mhz=sm_clock,
        memory_clock_mhz=clock,
        bus_bits=bus,
        l2_bytes=l2,
        source=source,
        **of_sm,
    )


# SMs, clocks of the SMs (boost, as the vendor's sheet has it too) and of the memory, bus and L2 are what the GPU's
# own attributes say (CUDA's deviceQuery sample prints them); the second half of each source is the vendor's bandwidth,
# which clock and bus must give.
GPUS = {
    "t4": _gpu(
        "Tesla T4", "sm_75", 40, 1590, 5001, 256, 4_194_304,
        "deviceQuery (gist Terminus-IMRC/5e4b7782c27106dec287050b323cd059); NVIDIA T4 datasheet: 320 GB/s",
    ),
    "a100": _gpu(
        "NVIDIA A100-SXM4-80GB", "sm_80", 108, 1410, 1593, 5120, 41_943_040,
        "deviceQuery; NVIDIA A100 80GB SXM datasheet: 2039 GB/s",
    ),
    "a10": _gpu(
        "NVIDIA A10", "sm_86", 72, 1695, 6251, 384, 6_291_456,
        "deviceQuery; NVIDIA A10 datasheet: 600 GB/s",
    ),
    "l4": _gpu(
        "NVIDIA L4", "sm_89", 58, 2040, 6251, 192, 50_331_648,
        "deviceQuery; NVIDIA L4 datasheet: 300 GB/s",
    ),
    "rtx4090": _gpu(
        "NVIDIA GeForce RTX 4090", "sm_89", 128, 2520, 10501, 384, 75_497_472,
        "deviceQuery; NVIDIA Ada GPU Architecture whitepaper, appendix A: 1008 GB/s, 73728 KB of L2",
    ),
    "h100": _gpu(
        "NVIDIA H100 80GB HBM3", "sm_90", 132, 1980, 2619, 5120, 52_428_800,
        "deviceQuery; NVIDIA H100 SXM datasheet: 3.35 TB/s",
    ),
    "h200": _gpu(
        "NVIDIA H200", "sm_90", 132, 1980, 3201, 6016, 62_914_560,
        "device attributes of an H200; NVIDIA H200 datasheet: 4.8 TB/s",
    ),
    "b200": _gpu(
        "NVIDIA B200", "sm_100", 148, 1965, 3996, 7680, 132_644_864,
        "device attributes and nvidia-smi (pytorch/ao pull request 4002): 7.67 TB/s",
    ),
    "rtx5090": _gpu(
        "NVIDIA GeForce RTX 5090", "sm_120", 170, 2407, 14001, 512, 100_663_296,
        "deviceQuery; NVIDIA RTX Blackwell GPU Architecture whitepaper: 1792 GB/s, 98304 KB of L2",
    ),
}  # fmt: skip


def gpu_named(name: str) -> Gpu:
    """The GPU called ``name`` in the table ("rtx4090"). Errors: :class:`UnknownNameError` with the names there are."""
    found = GPUS.get(name.lower())
    if found is None:
        raise UnknownNameError(f"there is no GPU {name!r}; the table has {', '.join(GPUS)}")
    return found


def key_of(name: str, otherwise: str) -> str:
    """The key of the GPU that a device calls itself ("NVIDIA H200" is "h200"); ``otherwise`` if it is in no table."""
    return next((key for key, found in GPUS.items() if found.name == name), otherwise)

"""Limits: what a container may use, read from control groups of both versions."""

import os
import resource
import subprocess
import sys

import pytest

from evenrank._internal import limits
from evenrank.errors import InputError, Option
from evenrank.ranking import memory_limit, thread_count

GB = 10**9
NONE = 9223372036854771712  # how version 1 writes that there is no limit


@pytest.fixture
def system(tmp_path, monkeypatch):
    """A machine of 64 GB free and 48 processors; a function that writes its control groups."""
    proc = tmp_path / "proc"
    monkeypatch.setattr(limits, "PROC", proc)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(48)), raising=False)

    def write(groups: str = "", mounts: str = "", **files: str) -> None:
        (proc / "self").mkdir(parents=True, exist_ok=True)
        (proc / "meminfo").write_text(f"MemTotal: 99 kB\nMemAvailable: {64 * GB // 1024} kB\n")
        (proc / "self" / "cgroup").write_text(groups)
        (proc / "self" / "mountinfo").write_text(mounts)
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    return write


def mount(place, kind: str, options: str = "rw", root: str = "/") -> str:
    return f"31 23 0:28 {root} {place} rw,relatime shared:9 - {kind} {kind} {options}\n"


def seen() -> tuple[float, int]:
    return limits.available_memory() / GB, limits.cpus()


def test_a_machine_without_groups_has_all_its_memory_and_processors(system):
    system()
    assert seen() == (64, 48)


def test_a_system_without_proc_has_the_memory_of_the_machine(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "PROC", tmp_path)
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert limits.available_memory() == pages
    monkeypatch.delattr(os, "sysconf")
    assert limits.available_memory() == sys.maxsize
    limits.check_fits(1e15, "this")


def test_version_2_limits_memory_and_processors(system, tmp_path):
    system(
        "0::/\n",
        mount(tmp_path / "fs", "cgroup2"),
        **{
            "fs/memory.max": f"{8 * GB}\n",
            "fs/memory.high": "max\n",
            "fs/memory.current": f"{3 * GB}\n",
            "fs/memory.stat": f"anon 5\nfile 9\ninactive_file {GB}\n",
            "fs/cpu.max": "250000 100000\n",
        },
    )
    assert seen() == (6, 3)  # 1 GB of the 3 in use is cached files; 2.5 processors


def test_the_tightest_group_on_the_way_up_holds(system, tmp_path):
    system(
        "0::/slice/job/step\n",
        mount(tmp_path / "fs", "cgroup2"),
        **{
            "fs/slice/job/step/memory.max": "max\n",
            "fs/slice/job/step/cpu.max": "max 100000\n",
            "fs/slice/job/memory.high": f"{5 * GB}\n",
            "fs/slice/job/memory.current": f"{1 * GB}\n",
            "fs/slice/memory.max": f"{40 * GB}\n",
            "fs/slice/memory.current": f"{39 * GB}\n",
            "fs/slice/cpu.max": "400000 100000\n",
            "fs/other/memory.max": "1\n",
        },
    )
    assert seen() == (1, 4)


def test_version_1_has_a_tree_for_each_controller(system, tmp_path):
    system(
        "9:name=systemd:/\n4:memory:/job\n1:cpu,cpuacct:/job/step\n0::/\n",
        mount(tmp_path / "mem ory", "cgroup", "rw,memory").replace("mem ory", "mem\\040ory")
        + mount(tmp_path / "cpu", "cgroup", "rw,cpu,cpuacct")
        + mount(tmp_path / "systemd", "cgroup", "rw,name=systemd"),
        **{
            "mem ory/memory.limit_in_bytes": f"{NONE}\n",
            "mem ory/job/memory.limit_in_bytes": f"{10 * GB}\n",
            "mem ory/job/memory.usage_in_bytes": f"{4 * GB}\n",
            "mem ory/job/memory.stat": f"cache 1\ninactive_file 7\ntotal_inactive_file {2 * GB}\n",
            "cpu/job/step/cpu.cfs_quota_us": "-1\n",
            "cpu/job/cpu.cfs_quota_us": "50000\n",
            "cpu/job/cpu.cfs_period_us": "100000\n",
        },
    )
    assert seen() == (8, 1)


def test_a_container_sees_its_own_group_as_the_topmost_one(system, tmp_path):
    """Without a namespace of groups, /proc names the path on the host, which is not mounted."""
    for path in ("/docker/ab12", "/docker/ab12/init", "/../../elsewhere"):
        system(
            f"4:memory:{path}\n",
            mount(tmp_path / "fs", "cgroup", "rw,memory", root="/docker/ab12"),
            **{
                "fs/memory.limit_in_bytes": f"{NONE}\n",
                "fs/memory.usage_in_bytes": f"{GB}\n",
                "fs/memory.stat": f"hierarchical_memory_limit {3 * GB}\n",  # of its parent
            },
        )
        assert seen() == (2, 48), path


def test_processors_are_those_the_process_may_run_on(system, tmp_path, monkeypatch):
    system("0::/\n", mount(tmp_path / "fs", "cgroup2"), **{"fs/cpu.max": "800000 100000\n"})
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 3}, raising=False)
    assert limits.cpus() == 2
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert limits.cpus() == 1


def test_exhausted_limits_leave_nothing(system, tmp_path):
    files = {"fs/memory.max": "100\n", "fs/memory.current": "200\n", "fs/cpu.max": "1000 100000\n"}
    system("0::/\n", mount(tmp_path / "fs", "cgroup2"), **files)
    assert seen() == (0, 1)
    assert memory_limit(None) == 2**20


def test_defaults_of_ranking_follow_the_limits(system, tmp_path, monkeypatch):
    files = {"fs/memory.max": f"{GB}\n", "fs/memory.current": "0\n", "fs/cpu.max": "600000 100000\n"}
    system("0::/\n", mount(tmp_path / "fs", "cgroup2"), **files)
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    assert (memory_limit(None), thread_count(None)) == (GB // 4, 6)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    assert thread_count(None) == 3
    system()
    assert memory_limit(None) == 512 * 2**20


def test_what_does_not_fit_is_named_with_size_and_limit(system, tmp_path):
    files = {"fs/memory.max": f"{4 * GB}\n", "fs/memory.current": f"{2 * GB}\n"}
    system("0::/\n", mount(tmp_path / "fs", "cgroup2"), **files)
    limits.check_fits(1.8 * GB, "this file")
    with pytest.raises(InputError) as error:
        limits.check_fits(7.2 * GB, "this file", do=["use ", Option("memory")], where="a.parquet")
    assert str(error.value) == (
        "a.parquet: this file needs more memory than is available; got 7.20 GB; "
        "allowed: at most 1.80 GB (2.00 GB available); use memory="
    )
    assert error.value.in_shell().endswith("use --memory")


def test_limits_of_the_address_space_hold():
    """In a process of its own, because the limit cannot be raised again."""
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (2 * 10**9, resource.RLIM_INFINITY));"
        "from evenrank._internal.limits import available_memory; print(available_memory())"
    )
    if not os.path.exists("/proc/self/statm") or not hasattr(resource, "RLIMIT_AS"):
        pytest.skip("needs /proc")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 0 < int(done.stdout) < 2 * GB

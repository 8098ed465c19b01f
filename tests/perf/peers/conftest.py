"""``pytest tests/perf/peers``: this project's best variants beside other people's kernels, never in another run."""

from __future__ import annotations

import datetime
import json
import os
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from pytest_roofline.plugin.session import not_checked, worker_number

from pytest_roofline.bench import telemetry
from pytest_roofline.plugin.comparison import PARALLEL
from pytest_roofline.plugin.hooks import SESSION

sys.path.append(str(Path(__file__).parent))

ROWS = pytest.StashKey[list[Any]]()
TITLE = "roofline: ours and its peers"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("roofline").addoption(
        "--peers-markdown",
        metavar="FILE",
        type=Path,
        help="write the comparison with the peers to FILE, and every figure to the same name with .json",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[ROWS] = []


@pytest.fixture
def compare(request: pytest.FixtureRequest, cuda_device: Any, roofline_session: Any) -> Any:
    """``compare(case)`` times all contenders at a case, keeps the row for the table and returns it.

    Without a GPU or torch the test is skipped with the reason.
    """
    if worker_number() is not None:
        pytest.fail(PARALLEL, pytrace=False)
    try:
        import torch
    except Exception as error:  # a broken installation raises whatever it likes
        pytest.skip(not_checked(f"torch can't be imported ({type(error).__name__}: {error})"))
    reason = unusable(torch, cuda_device)
    if reason:
        pytest.skip(not_checked(reason))
    from peer_arena import Arena

    def run(case: Any) -> Any:
        with torch.no_grad():
            arena = Arena(cuda_device, roofline_session.suite, roofline_session.stopwatch, case)
            try:
                row = arena.compare()
            finally:
                arena.release()
        request.config.stash[ROWS].append(row)
        return row

    return run


def unusable(torch: Any, device: Any) -> str:
    """Why torch can't share this device's memory and stream; empty if it can."""
    if not torch.cuda.is_available():
        return f"torch {torch.__version__} sees no GPU"
    torch.cuda.set_device(device.index)
    streams = {"CuPy": device.cupy.cuda.get_current_stream().ptr, "torch": torch.cuda.current_stream().cuda_stream}
    if any(streams.values()):
        return f"the current streams are not the legacy default stream: {streams}"
    return ""


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    rows = config.stash[ROWS]
    if not rows:
        return
    import peer_arena
    import peer_table

    session = config.stash[SESSION]
    terminalreporter.section(TITLE)
    for line in peer_table.lines(rows):
        terminalreporter.write_line(line)
    target = config.getoption("peers_markdown")
    if target is None:
        return
    told = {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
        "command": shlex.join(["pytest", *config.invocation_params.args]),
        **peer_arena.about(session.cuda, telemetry.read(session.cuda).driver),
    }
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(peer_table.markdown(rows, told), encoding="utf-8")
    text = json.dumps(peer_table.as_json(rows, told), indent=1, allow_nan=False)
    target.with_suffix(".json").write_text(text + os.linesep, encoding="utf-8")
    terminalreporter.write_line(f"written: {target} and {target.with_suffix('.json')}")

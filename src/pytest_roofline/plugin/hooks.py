"""Hooks, options, markers and fixtures. No logic: that is in the modules this one calls."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ..bench import modelled
from ..errors import DeviceMemoryError, NotCheckedError, RooflineError, SanitizerNotFoundError
from ..hardware import gpus as gpus
from ..report import tables as report
from ..sanitize.compute_sanitizer import conclude
from ..sim.errors import UnsupportedError
from ..testing import cases
from . import comparison, environment
from .session import Session, Settings, not_checked, worker_number

if TYPE_CHECKING:
    from ..declare.suite import Suite
    from ..run.gpu.device import CudaDevice
    from ..sim.device import SimDevice

SESSION = pytest.StashKey[Session]()
COMPARISON = pytest.StashKey[comparison.Comparison]()
SIMULATED = ("roofline", "simulated")  # among the properties of a test's report


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("roofline", "CUDA kernels against the roofline")
    add = group.addoption
    add(
        "--roofline-device",
        choices=("auto", "cuda", "sim"),
        default="auto",
        help="what kernels are checked on; auto: a GPU if there is one, else the simulator",
    )
    add(
        "--roofline-gpu",
        metavar="NAME",
        default="rtx4090",
        help="the gpu whose limits the simulator has (%(default)s)",
    )
    add("--roofline-require-gpu", action="store_true", help="a missing GPU is an error, not a skip")
    add("--roofline-state", choices=("cold", "warm"), default="cold", help="L2 cache before each sample (%(default)s)")
    add(
        "--roofline-precision",
        type=comparison.percent,
        metavar="PERCENT",
        default="0.1%",
        help="aim for the median's standard error; rounds follow from it, within --benchmark-max-time (%(default)s)",
    )
    add(
        "--roofline-counters",
        action="store_true",
        help="run each benchmark once more under ncu and report DRAM bytes and L2 sectors as the GPU counts them",
    )
    add("--roofline-sanitizer", metavar="PATH", help="compute-sanitizer (else environment, PATH, toolkit, wheel)")
    add(
        "--roofline-gate",
        type=comparison.percent,
        nargs="?",
        const="5%",
        metavar="PERCENT",
        help="fail where a median is this much slower than --benchmark-compare's baseline, or has none (5%%)",
    )
    add("--roofline-other-gpu", action="store_true", help="compare with a baseline of another gpu, by MBU only")
    parser.addini("roofline_suite", "path of the suite declaration, from the rootdir", default="")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "gpu: needs a CUDA device")
    config.addinivalue_line("markers", "perf: measures time; never under pytest-xdist")
    config.addinivalue_line("markers", "sanitizer: looks for races and bad memory accesses")
    suite = config.getini("roofline_suite")
    session = config.stash[SESSION] = Session(settings(config, config.rootpath / suite if suite else None))
    config.stash[COMPARISON] = comparison.Comparison(
        config.getoption("roofline_gate"), config.getoption("roofline_other_gpu")
    )
    config.pluginmanager.register(SimulatedTests(session))
    with usage_errors():
        if session.settings.require_gpu:
            session.check_device()
    if not declared(config):
        return
    with usage_errors():
        environment.check_versions(metadata.version("pytest"), metadata.version("pytest-benchmark"))
        environment.check_cupy()
        environment.check_benchmark(hasattr(config.option, "benchmark_compare"))
        gpus.gpu(session.settings.gpu)
        comparison.check_options(config.option)
        assert session.suite  # a declaration that is wrong stops the run here, once
        session.check_device()
        # Apart from measured runs of the same gpu, with which no modelled one is ever compared.
        folder = f"modelled {session.gpu.name}" if session.missing else session.gpu.name
        comparison.default_storage(config.option, config.rootpath, folder)


def declared(config: pytest.Config) -> bool:
    """Whether this project has a suite. In others the plugin leaves everything alone."""
    return config.stash[SESSION].settings.suite is not None


def settings(config: pytest.Config, suite: Path | None) -> Settings:
    get = config.getoption
    return Settings(
        suite=suite,
        device=get("roofline_device"),
        gpu=get("roofline_gpu"),
        require_gpu=get("roofline_require_gpu"),
        state=get("roofline_state"),
        precision=get("roofline_precision"),
        budget=float(get("benchmark_max_time", 1.0)),
        min_rounds=max(Settings.min_rounds, get("benchmark_min_rounds", 0)),
        sanitizer=get("roofline_sanitizer"),
        worker=worker_number() or 0,
    )


@contextlib.contextmanager
def usage_errors() -> Iterator[None]:
    """Show this package's errors as pytest's usage errors: the message, and no traceback."""
    try:
        yield
    except RooflineError as error:
        raise pytest.UsageError(str(error)) from error


def pytest_report_header(config: pytest.Config) -> str | None:
    return config.stash[SESSION].header() if declared(config) else None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if not declared(metafunc.config):
        return
    marks = [mark for mark in metafunc.definition.iter_markers("parametrize") if mark.args or "argnames" in mark.kwargs]
    taken = {name for mark in marks for name in cases.names_of(mark.args[0] if mark.args else mark.kwargs["argnames"])}
    taken |= metafunc.definition._fixtureinfo.name2fixturedefs.keys()  # the project's own fixtures of these names
    with usage_errors():
        for name in sorted(cases.PARAMETERS.keys() & set(metafunc.fixturenames) - taken):
            values = cases.PARAMETERS[name](metafunc.config.stash[SESSION].suite)
            ids = list(values)
            if name == "huge_shape" and metafunc.config.stash[SESSION].missing:
                ids = [f"{one}-selected-rows" for one in ids]
            metafunc.parametrize(name, list(values.values()), ids=ids)


@pytest.hookimpl(tryfirst=True)  # before -m deselects by these marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items if declared(config) else ():
        names = getattr(item, "fixturenames", ())
        if "cuda_device" in names:
            item.add_marker(pytest.mark.gpu)
        if "sanitize" in names:
            item.add_marker(pytest.mark.sanitizer)
        if "roofline" in names:
            options: dict[str, Any] = {}
            for mark in item.iter_markers("benchmark"):  # inner first: marks do not merge by themselves
                options = {**mark.kwargs, **options}
            options.setdefault("group", cases.group_of(item.callspec.params) if hasattr(item, "callspec") else None)
            if config.stash[SESSION].missing:
                options["group"] = f"{options['group'] or 'all'}: {modelled.label(config.stash[SESSION].gpu)}"
            options["timer"] = config.stash[SESSION].timer
            item.add_marker(pytest.mark.benchmark(**options), append=False)
            item.add_marker(pytest.mark.perf)


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    for item in items:
        item.config.stash[COMPARISON].deselected.add(item.nodeid)


def pytest_collection_finish(session: pytest.Session) -> None:
    session.config.stash[COMPARISON].asked = comparison.asked_for(session.config)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if declared(item.config) and worker_number() is not None and "roofline" in getattr(item, "fixturenames", ()):
        pytest.fail(comparison.PARALLEL, pytrace=False)


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    scheduler = session.config.pluginmanager.getplugin("dsession")  # pytest-xdist's, in the process that schedules
    if scheduler is not None:
        session.config.pluginmanager.register(comparison.StopParallel(scheduler))


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, Any, Any]:
    try:
        return (yield)
    except (DeviceMemoryError, NotCheckedError) as error:
        required = pyfuncitem.config.stash[SESSION].settings.require_gpu
        if required and not isinstance(error, DeviceMemoryError | UnsupportedError):
            raise
        pytest.skip(not_checked(error))


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    if not declared(item.config):
        return
    session, names = item.config.stash[SESSION], {*getattr(item, "fixturenames", ())}
    if session.missing and names & {"device", "sanitize"} and not names & {"cuda_device"}:
        item.user_properties.append(SIMULATED)
    if {"device", "cuda_device"} & names:
        session.release()


class SimulatedTests:
    """Counts the tests that ran on the simulator, those of pytest-xdist's workers too."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.session.simulated_tests += report.when == "teardown" and SIMULATED in map(tuple, report.user_properties)


@pytest.hookimpl(optionalhook=True)
def pytest_benchmark_update_machine_info(config: pytest.Config, machine_info: dict[str, Any]) -> None:
    session = config.stash[SESSION]
    if declared(config):
        machine_info["roofline"] = session.machine()


@pytest.hookimpl(tryfirst=True, optionalhook=True)
def pytest_benchmark_compare_machine_info(
    config: pytest.Config, machine_info: dict[str, Any], compared_benchmark: dict[str, Any]
) -> None:
    if "roofline" in machine_info:
        with usage_errors():
            config.stash[COMPARISON].load(machine_info, compared_benchmark)


@pytest.hookimpl(wrapper=True, optionalhook=True)
def pytest_benchmark_group_stats(config: pytest.Config) -> Generator[None, Any, Any]:
    groups = yield
    session = config.stash[SESSION]
    if not declared(config) or not session.missing:
        return groups
    told = modelled.label(session.gpu)  # whatever --benchmark-group-by groups by
    return [(name if told in str(name) else f"{name or 'all'}: {told}", group) for name, group in groups]


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, Any, Any]:
    done = yield
    if session.config.getoption("roofline_counters") and declared(session.config):
        with usage_errors():
            session.config.stash[SESSION].benchmarks.count()  # before pytest-benchmark saves the run
    return done


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    found = session.config.stash[COMPARISON]
    if session.config.option.collectonly:
        return
    found.conclude(session.config.stash[SESSION].benchmarks.records)
    if found.failed and exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(trylast=True)  # after pytest-benchmark's long table
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if not declared(config):
        return
    found = config.stash[COMPARISON]
    session = config.stash[SESSION]
    sections = report.sections(session.benchmarks.records, found.infos(), found.lines(), terminalreporter.stats)
    for title, lines in [*sections, *session.footer()]:
        terminalreporter.section(title)
        for line in lines:
            terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def roofline_session(request: pytest.FixtureRequest) -> Session:
    """Everything this process holds; the other fixtures are parts of it."""
    return request.config.stash[SESSION]


@pytest.fixture(scope="session")
def suite(roofline_session: Session) -> Suite:
    """The declaration named by the ini key roofline_suite."""
    return roofline_session.suite


@pytest.fixture
def device(roofline_session: Session) -> CudaDevice | SimDevice:
    """What kernels are checked on, a GPU or the simulator. Its memory is freed after the test."""
    return roofline_session.device


@pytest.fixture
def cuda_device(roofline_session: Session) -> CudaDevice:
    """The GPU; the test is skipped where there is none."""
    if roofline_session.missing:
        pytest.skip(not_checked(f"no CUDA device ({roofline_session.missing})"))
    return roofline_session.cuda


@pytest.fixture
def kernels(roofline_session: Session, device: Any) -> Callable[..., Any]:
    """``kernels("rms_n3")`` is that kernel, compiled: on a GPU a CuPy RawKernel, else one that is called alike.

    One that is compiled for its shape needs it: ``kernels("rms_n5", Shape(4, 1000))``.
    """
    return roofline_session.kernel


@pytest.fixture
def check(roofline_session: Session, device: Any) -> Callable[..., Any]:
    """``check(variant, shape, inputs=None)`` runs the variant once and compares with its float64 reference."""
    return roofline_session.check


@pytest.fixture
def sanitize(roofline_session: Session, device: Any) -> Callable[..., Any]:
    """``sanitize(variant, which, shape, volatile=False)`` checks the variant and returns the report.

    In the simulator, and on a GPU machine under compute-sanitizer too; that the two disagree is an error.
    What could not be checked is a skip with the reason, or a failure where the GPU is required.
    """
    required = roofline_session.settings.require_gpu

    def run(*args: Any, **options: Any) -> Any:
        try:
            report = roofline_session.sanitizing.check(*args, **options)
        except SanitizerNotFoundError as error:
            if required:
                raise
            pytest.skip(not_checked(error))
        if reason := conclude(report, required):
            pytest.skip(reason)
        return report

    return run


@pytest.fixture
def roofline(roofline_session: Session, device: Any, benchmark: Any) -> Callable[..., Any]:
    """``roofline(variant, shape, state=None)`` checks the answer, then times the variant through pytest-benchmark.

    Without a GPU the time is the modelled floor on the gpu that --roofline-gpu names.
    """

    def measure(variant: Any, shape: Any, state: str | None = None) -> Any:
        return roofline_session.benchmarks.run(benchmark, variant, shape, state)

    return measure

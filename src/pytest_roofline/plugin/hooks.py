"""Hooks. No logic: that is in the modules this one calls."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator, Sequence
from importlib import metadata
from typing import Any

import pytest

from ..bench.modelled import label
from ..errors import CompileError, DeviceMemoryError, NotCheckedError, RooflineError
from ..hardware.gpus import gpu_named
from ..report import tables
from ..run.device import NOT_CHECKED
from ..sim.errors import UnsupportedError
from ..testing import cases
from . import comparison, environment, told
from .benchmarks import Benchmarks, labelled, named
from .failures import CompileErrors, shorten
from .options import settings
from .parts import Parts, worker_number

PARTS = pytest.StashKey[Parts]()
BENCHMARKS = pytest.StashKey[Benchmarks]()
COMPARISON = pytest.StashKey[comparison.Comparison]()
COMPILE_ERRORS = pytest.StashKey[CompileErrors]()
SIMULATED = ("roofline", "simulated")  # among the properties of a test's report


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "gpu: needs a CUDA device")
    config.addinivalue_line("markers", "perf: measures time; never under pytest-xdist")
    config.addinivalue_line("markers", "sanitizer: looks for races and bad memory accesses")
    suite, get = config.getini("roofline_suite"), config.getoption
    parts = config.stash[PARTS] = Parts(settings(config, config.rootpath / suite if suite else None))
    config.stash[BENCHMARKS], config.stash[COMPILE_ERRORS] = Benchmarks(), CompileErrors()
    config.stash[COMPARISON] = comparison.Comparison(get("roofline_gate"), get("roofline_other_gpu"))
    config.pluginmanager.register(SimulatedTests(parts))
    wanted = {"--roofline-require-gpu": parts.settings.require_gpu}
    wanted["--roofline-device cuda"] = get("roofline_device") == "cuda"
    with usage_errors():
        if parts.settings.require_gpu or parts.declared:
            parts.devices.require(*(option for option, on in wanted.items() if on))
    if not parts.declared:
        return
    with usage_errors():
        environment.check_versions(metadata.version("pytest"), metadata.version("pytest-benchmark"))
        environment.check_cupy()
        environment.check_benchmark(hasattr(config.option, "benchmark_compare"))
        environment.check_histogram(getattr(config.option, "benchmark_histogram", None))
        gpu_named(parts.settings.gpu)
        comparison.check_options(config.option)
        parts.suite  # noqa: B018 - a declaration that is wrong stops the run here, once
        # Apart from measured runs of the same GPU, with which no modelled one is ever compared.
        gpu = parts.devices.gpu.name
        comparison.default_storage(config.option, config.rootpath, f"modelled {gpu}" if parts.devices.missing else gpu)


@contextlib.contextmanager
def usage_errors() -> Iterator[None]:
    """Show this package's errors as pytest's usage errors: the message, and no traceback."""
    try:
        yield
    except RooflineError as error:
        raise pytest.UsageError(str(error)) from error


def pytest_report_header(config: pytest.Config) -> list[str] | None:
    parts = config.stash[PARTS]
    return told.header(parts) if parts.declared else None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    parts = metafunc.config.stash[PARTS]
    if not parts.declared:
        return
    marks = [mark for mark in metafunc.definition.iter_markers("parametrize") if mark.args or "argnames" in mark.kwargs]
    taken = {name for mark in marks for name in cases.names_of(mark.args[0] if mark.args else mark.kwargs["argnames"])}
    taken |= metafunc.definition._fixtureinfo.name2fixturedefs.keys()  # the project's own fixtures of these names
    with usage_errors():
        for name in sorted(cases.PARAMETERS.keys() & set(metafunc.fixturenames) - taken):
            values = cases.parameters(name, parts.suite)
            metafunc.parametrize(name, [_or_skip(value) for value in values.values()], ids=list(values))


def _or_skip(value: Any) -> Any:
    if isinstance(value, cases.Missing):
        return pytest.param(None, marks=pytest.mark.skip(reason=value.why))
    return value


@pytest.hookimpl(tryfirst=True)  # before -m deselects by these marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    parts = config.stash[PARTS]
    for item in items if parts.declared else ():
        names = getattr(item, "fixturenames", ())
        if "cuda_device" in names:
            item.add_marker(pytest.mark.gpu)
        if "sanitize" in names:
            item.add_marker(pytest.mark.sanitizer)
        if "roofline" in names:
            _mark_benchmark(parts, item)


def _mark_benchmark(parts: Parts, item: pytest.Item) -> None:
    options: dict[str, Any] = {}
    for mark in item.iter_markers("benchmark"):  # inner first: marks do not merge by themselves
        options = {**mark.kwargs, **options}
    options.setdefault("group", cases.group_of(item.callspec.params) if hasattr(item, "callspec") else None)
    if parts.devices.missing:
        options["group"] = f"{options['group'] or 'all'}: {label(parts.devices.gpu)}"
    options["timer"] = Timer(parts)
    item.add_marker(pytest.mark.benchmark(**options), append=False)
    item.add_marker(pytest.mark.perf)


class Timer:
    """pytest-benchmark's timer: the clock is made when the first benchmark asks it, not at collection."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.__name__ = "modelled_speed_of_light" if parts.devices.missing else "cuda_events"  # shown in a saved run

    def __call__(self) -> Any:
        return self.parts.clock.timer()


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    for item in items:
        item.config.stash[COMPARISON].deselected.add(item.nodeid)


def pytest_collection_finish(session: pytest.Session) -> None:
    session.config.stash[COMPARISON].asked = comparison.asked_for(session.config)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if (
        item.config.stash[PARTS].declared
        and worker_number() is not None
        and "roofline" in getattr(item, "fixturenames", ())
    ):
        pytest.fail(comparison.PARALLEL, pytrace=False)


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    scheduler = session.config.pluginmanager.getplugin("dsession")  # pytest-xdist's, in the process that schedules
    if scheduler is not None:
        session.config.pluginmanager.register(comparison.StopParallel(scheduler))


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, Any, Any]:
    config = pyfuncitem.config
    try:
        return (yield)
    except CompileError as error:
        raise pytest.fail.Exception(
            config.stash[COMPILE_ERRORS].told(error, pyfuncitem.nodeid), pytrace=False
        ) from None
    except (DeviceMemoryError, NotCheckedError) as error:
        required = config.stash[PARTS].settings.require_gpu
        if required and not isinstance(error, DeviceMemoryError | UnsupportedError):
            raise
        pytest.skip(not_checked(error))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if call.excinfo is not None:
        shorten(report, call.excinfo.value)
    return report


def not_checked(error: RooflineError | str) -> str:
    """The reason of a skip."""
    return f"{NOT_CHECKED}: {error}"


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    parts = item.config.stash[PARTS]
    if not parts.declared:
        return
    if parts.devices.missing and parts.devices.take_launched():
        item.user_properties.append(SIMULATED)
    if {"device", "cuda_device"} & {*getattr(item, "fixturenames", ())}:
        parts.devices.release()


class SimulatedTests:
    """Counts the tests that ran on the simulator, those of pytest-xdist's workers too."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.parts.simulated_tests += report.when == "teardown" and SIMULATED in map(tuple, report.user_properties)


@pytest.hookimpl(optionalhook=True)
def pytest_benchmark_update_machine_info(config: pytest.Config, machine_info: dict[str, Any]) -> None:
    parts = config.stash[PARTS]
    if parts.declared:
        machine_info["roofline"] = told.machine(parts)


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
    return [(labelled(name, group), group) for name, group in groups]


@pytest.hookimpl(optionalhook=True)
def pytest_benchmark_update_json(config: pytest.Config, output_json: dict[str, Any]) -> None:
    """Parameters are saved by their short names: a case is no JSON."""
    for benchmark in output_json["benchmarks"]:
        benchmark["params"] = named(benchmark.get("params"))


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, Any, Any]:
    done = yield
    parts = session.config.stash[PARTS]
    if session.config.getoption("roofline_counters") and parts.declared:
        with usage_errors():  # before pytest-benchmark saves the run
            session.config.stash[BENCHMARKS].count(parts.suite, parts.devices, parts.settings.require_gpu)
    return done


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    found = session.config.stash[COMPARISON]
    if session.config.option.collectonly:
        return
    found.conclude(session.config.stash[BENCHMARKS].records)
    if found.failed and exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(trylast=True)  # after pytest-benchmark's long table
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    parts = config.stash[PARTS]
    if not parts.declared:
        return
    found, benchmarks = config.stash[COMPARISON], config.stash[BENCHMARKS]
    records = list(benchmarks.records.items())
    sections = tables.sections(records, found.records(), found.lines(), terminalreporter.stats)
    for title, lines in [*sections, *told.footer(parts, benchmarks)]:
        terminalreporter.section(title)
        for line in lines:
            terminalreporter.write_line(line)

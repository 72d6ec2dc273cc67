"""A mutant without importing anything anew: what its functions do is replaced where they are.

Problem: importing the product and the tests again for each of some two hundred mutants took most of their time.
Mechanism: a function's code can be exchanged, and whoever holds the function then runs the new one. Both sources are
compiled, and if they differ within functions only, those functions get the new code. There is no way back: it is for a
copy of a process that ends afterwards (`os.fork`).

What it deliberately does not do: module level, class bodies, signatures and whatever is not found under its name (a
lambda, a function within a decorator). `fits` says so; those are imported anew (`reloading`).
"""

import importlib
import inspect
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from tests.mutants.catalogue import PRODUCT, Mutant

Changes = list[tuple[FunctionType, CodeType]]


def fits(mutant: Mutant) -> bool:
    """Whether `break_for_good` can do it. Imports the modules that it is about."""
    return _of_mutant(mutant) is not None


def break_for_good(mutant: Mutant) -> None:
    """From now on this process runs the mutant."""
    changes = _of_mutant(mutant)
    assert changes is not None, f"{mutant.name}: not within functions"
    make(changes)


@lru_cache(maxsize=1)
def _of_mutant(mutant: Mutant) -> Changes | None:
    found: Changes = []
    for module in sorted({patch.module for patch in mutant.patches}):

        def broken(source: str, module: str = module) -> str:
            for patch in mutant.patches:
                if patch.module == module:
                    count = source.count(patch.old)
                    assert count == 1, f"{count} places in {module} for {patch.old!r}"
                    source = source.replace(patch.old, patch.new)
            return source

        changes = changes_of(PRODUCT + module, broken)
        if changes is None:
            return None
        found += changes
    return found


def make(changes: Changes) -> None:
    """For good."""
    assert changes, "nothing would be another"
    for function, code in changes:
        function.__code__ = code


def changes_of(name: str, broken: Callable[[str], str]) -> Changes | None:
    """What makes a module the one that this source would be; None: more than what functions do is another."""
    module = importlib.import_module(name)
    path = inspect.getsourcefile(module)
    assert path is not None
    sound = Path(path).read_text(encoding="utf-8")
    found: Changes = []
    for owner, old, new in _pairs(_compiled(sound, path), compile(broken(sound), path, "exec"), vars(module)):
        function = None if old is None else _function(owner, old)
        if function is None or function.__code__.co_freevars != new.co_freevars:
            return None
        found.append((function, new))
    return found


@lru_cache(maxsize=64)
def _compiled(sound: str, path: str) -> CodeType:
    """A module has several mutants, and its compilation is as long as what they are tried against."""
    return compile(sound, path, "exec")


def _pairs(before: CodeType, after: CodeType, owner: Any) -> Iterator[tuple[Any, CodeType | None, CodeType]]:
    """(namespace, old, new) of the functions that differ; old is None where something else does."""
    if _shell(before) != _shell(after):
        yield owner, None, after
        return
    for old, new in zip(_within(before), _within(after), strict=True):
        if _same(old, new):
            continue
        if old.co_flags & inspect.CO_OPTIMIZED:
            yield owner, (old if _signature(old) == _signature(new) else None), new
        elif inspect.isclass(cls := owner.get(old.co_name)):
            yield from _pairs(old, new, vars(cls))
        else:
            yield owner, None, new


def _function(namespace: Any, code: CodeType) -> FunctionType | None:
    """The one that was made of this code."""
    found = namespace.get(code.co_name)
    if isinstance(found, staticmethod | classmethod):
        found = found.__func__
    if isinstance(found, property):
        found = found.fget
    found = inspect.unwrap(found) if callable(found) else None
    return found if isinstance(found, FunctionType) and _same(found.__code__, code) else None


def _within(code: CodeType) -> list[CodeType]:
    return [one for one in code.co_consts if isinstance(one, CodeType)]


def _signature(code: CodeType) -> tuple[object, ...]:
    count = code.co_argcount + code.co_kwonlyargcount
    return (
        code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_varnames[:count],
        code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS | inspect.CO_GENERATOR | inspect.CO_COROUTINE),
    )  # fmt: skip


def _shell(code: CodeType) -> tuple[object, ...]:
    """All but the lines and the code within it, of which the names."""
    consts = [(type(one), one.co_name if isinstance(one, CodeType) else one) for one in code.co_consts]
    return (
        code.co_name, _signature(code), code.co_flags, code.co_names, code.co_varnames, code.co_freevars,
        code.co_cellvars, code.co_code, code.co_exceptiontable, consts,
    )  # fmt: skip


def _same(old: CodeType, new: CodeType) -> bool:
    """Whatever lines they are in."""
    return _shell(old) == _shell(new) and all(map(_same, _within(old), _within(new)))

"""What must not be broken where everything is copied and restored (R2), and where a definition changes beside live mode
(E7)."""

from __future__ import annotations

from tests.mutants.guard import Guard

_BACKUP = "tests/audit/test_backup.py"
_STORED = "tests/maintenance/test_backup.py"
_MEMORIES = "test_R2_memories_of_a_batch_between_the_two_copies_are_in_the_copy_and_missing_ones_are_found"
_SINKS = "tests/sinks/test_restored_sinks.py"
_APPLY = "tests/session/test_apply_beside_live.py"
_ALTER = "tests/session/test_alter_beside_live.py"
GUARDS: tuple[Guard, ...] = (
    Guard(
        "backup-outside",
        "R2",
        "No copy is put into, or around, what is in use.",
        "audit/backup_place.py",
        "        if resolved.is_relative_to(there) or there.is_relative_to(resolved):",
        "        if resolved == there:",
        (f"{_BACKUP}::test_TG607_nothing_is_copied_into_what_is_in_use",),
    ),
    Guard(
        "backup-own-folder",
        "R2",
        "A folder that has something else is not taken for one of a backup.",
        "audit/backup_place.py",
        "        if names and MARKER not in names:",
        "        if False:",
        (f"{_BACKUP}::test_TG607_a_folder_that_has_something_else_is_left_as_it_is",),
    ),
    Guard(
        "backup-same-file",
        "R2",
        "A file is only linked to that of the copy before if it is the same one.",
        "audit/backup_place.py",
        "    return facts.st_size, facts.st_mtime_ns",
        "    return facts.st_size, int(facts.st_mtime)",
        (f"{_BACKUP}::test_R2_a_file_of_the_same_second_and_length_is_another_one",),
    ),
    Guard(
        "backup-whole",
        "R2",
        "The copy before is there until the new one has its place.",
        "audit/backup_place.py",
        "            self._copy.rename(self._former)",
        "            shutil.rmtree(self._copy)",
        (f"{_BACKUP}::test_R2_a_kill_at_any_rename_leaves_a_whole_copy_which_the_next_command_finds",),
    ),
    Guard(
        "backup-delivery",
        "R2",
        "The files of a sink are those of its position.",
        "audit/backup.py",
        "                if _content(position) == before:",
        "                if True:",
        (f"{_BACKUP}::test_R2_a_sink_that_delivers_meanwhile_has_the_files_of_its_position",),
    ),
    Guard(
        "backup-memories",
        "R2",
        "A copy has the memories of partitions that the logs of its catalog name.",
        "audit/backup.py",
        "                    self._memory(Path(memories) / name)",
        "                    pass",
        (f"{_STORED}::{_MEMORIES}",),
    ),
    Guard(
        "verify-memories",
        "R2",
        "A memory that a log names and that is missing is found.",
        "audit/stored_files.py",
        "        for problem in pool.map(looking.at_memory, looking.memories(table)):",
        "        for problem in ():",
        (f"{_STORED}::{_MEMORIES}",),
    ),
    Guard(
        "backup-input",
        "R2",
        "No copy is put where a source reads it.",
        "audit/backup.py",
        "            *_read_folders(project),\n",
        "",
        (f"{_STORED}::test_TG607_no_copy_is_put_where_a_source_reads_it",),
    ),
    Guard(
        "backup-erasure",
        "E9",
        "No copy has files of an erasure whose record it does not have.",
        "audit/backup.py",
        "        _require_no_erasure(self._warehouse)",
        "        pass",
        (f"{_BACKUP}::test_TG573_nothing_is_copied_while_an_erasure_is_not_finished",),
    ),
    Guard(
        "sink-stays-refused",
        "R2",
        "A sink that was refused after a restore is refused also when commits that would tell have expired.",
        "store/positions.py",
        "    return found is not None and found[0] == asdict(position)",
        "    return False",
        (f"{_SINKS}::test_R2_it_refuses_for_good_also_when_no_commit_tells_any_more",),
    ),
    Guard(
        "sink-later-version",
        "R2",
        "A sink does not go on from a version that its view does not have.",
        "store/positions.py",
        "            return number is not None and number >= next_number(known.properties)",
        "            return False",
        (f"{_SINKS}::test_R2_a_position_of_a_version_that_the_table_does_not_have_is_found",),
    ),
    Guard(
        "alter-asks-first",
        "E7",
        "A definition that live mode would refuse is not stored.",
        "evolve/beside_live.py",
        "            require_in_place(project, catalog, [name for one in live.records for name in one.members])",
        "            pass",
        (f"{_ALTER}::test_E7_what_live_mode_would_refuse_is_not_stored_at_all",),
    ),
    Guard(
        "alter-takes-back-its-own",
        "E7",
        "A statement takes back only the definition that it has stored.",
        "evolve/beside_live.py",
        '        if error.code == "TG709" and _content(file) == wrote:',
        '        if error.code == "TG709":',
        (f"{_ALTER}::test_E7_another_definition_that_is_there_by_then_stays",),
    ),
    Guard(
        "apply-asks-for-sinks",
        "E6",
        "Live mode has taken up a sink before a new version of what it delivers is swapped.",
        "evolve/beside_live.py",
        "is_here(one) and any(_has(one, change.name) for change in changes)",
        "is_here(one) and any(_has(one, change.name) for change in changes if change.kind != 'sink')",
        (f"{_APPLY}::test_E6_a_sink_is_changed_before_the_version_that_it_delivers_is_swapped",),
    ),
    Guard(
        "tables-are-changed-here",
        "E7",
        "The log of a table without a connector is changed by apply, and not waited for.",
        "evolve/beside_live.py",
        "    return isinstance(found, Relation) and found.connector is None",
        "    return False",
        (f"{_APPLY}::test_E7_a_table_that_live_mode_only_reads_is_changed_here_and_live_mode_is_told",),
    ),
    Guard(
        "sink-by-its-newest-definition",
        "E6",
        "A sink goes over to a new version of its view only by its newest definition.",
        "sinks/deliver.py",
        "            require_newest(context, sink)",
        "            pass",
        (f"{_APPLY}::test_E6_a_sink_goes_over_to_a_new_version_only_by_its_newest_definition",),
    ),
)

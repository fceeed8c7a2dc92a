"""What must not be broken where rows are erased (E9), columns change (E2, E3, E7), and views get versions (E5)."""

from __future__ import annotations

from tests.mutants.guard import Guard

_AT = "tests/evolve/test_apply_at.py"
_BACK = "tests/views/test_going_back.py"
_BUILDS = "tests/views/test_version_builds.py"
_NAMES = "tests/evolve/test_names_and_types.py"
_PAST = "tests/views/test_going_back_past.py"
_ERASE = "tests/maintenance/test_erase_recompute.py"
_KEYED = "tests/evolve/test_keyed_tables.py"
_MEANWHILE = "tests/evolve/test_changed_meanwhile.py"
GUARDS: tuple[Guard, ...] = (
    Guard(
        "erasure-reaches",
        "E9",
        "Where not every place is reached that may have a person's rows, nothing is erased.",
        "maintenance/erase_reach.py",
        "    if reasons:",
        "    if False:",
        ("tests/maintenance/test_erase.py::test_E9_what_is_not_reached_refuses_all_of_it",),
    ),
    Guard(
        "erasure-expires",
        "E9",
        "No earlier snapshot keeps the files of erased rows.",
        "maintenance/erase_history.py",
        "    upkeep.expire(EVERYTHING)",
        "    pass",
        ("tests/maintenance/test_erase.py::test_E9_nothing_of_the_person_is_left_at_rest",),
    ),
    Guard(
        "erasure-decides-nothing",
        "E4",
        "The one snapshot that an erasure leaves says what the commit before it said.",
        "maintenance/erase_history.py",
        "    upkeep.forget_removed(base)",
        "    upkeep.forget_removed(type(base)(base.id, {}))",
        (
            "tests/maintenance/test_erase.py::test_E9_rows_go_from_every_outcome_and_all_others_stay_as_they_are",
        ),
    ),
    Guard(
        "erasure-views",
        "E9",
        "A view whose rows may depend on rows of others is not changed by a condition on its columns.",
        "sql/views/passed_columns.py",
        "    if len(view.inputs) != 1 or view.over is not None or any(word in text for word in _OTHERS):",
        "    if len(view.inputs) != 1:",
        (
            "tests/maintenance/test_erase_views.py::test_E9_a_view_whose_rows_depend_on_others_refuses_all_of_it",
        ),
    ),
    Guard(
        "erasure-versions",
        "E9",
        "Earlier versions of a view, which may show what the current one does not, go with its past.",
        "maintenance/erase_history.py",
        "    upkeep.forget_names()",
        "    pass",
        ("tests/maintenance/test_erase_views.py::test_E9_earlier_versions_of_views_go_too",),
    ),
    Guard(
        "erasure-marks",
        "E9",
        "A backfill leaves a window alone that held erased rows.",
        "views/amend/comparison.py",
        "        if held is not None:",
        "        if False:",
        (
            "tests/maintenance/test_erase_views.py"
            "::test_E9_counts_and_sums_stay_if_somebody_says_so_and_their_windows_are_marked",
        ),
    ),
    Guard(
        "erasure-newest",
        "E9",
        "An erasure ends only where the rows that it has looked at are those of the newest snapshot.",
        "maintenance/erase.py",
        "forget_history(upkeep, before, seen)",
        "forget_history(upkeep, before, upkeep.table.current())",
        (
            "tests/simulate/test_simulate.py::test_a_history_that_once_failed_is_right"
            "[rows-looked-for-in-an-older-state]",
        ),
    ),
    Guard(
        "erasure-marks-newest",
        "E9",
        "Windows are marked only in the newest state of a view.",
        "views/revisions/erased_windows.py",
        "    table.append([], None, base.facts, base, change=change)",
        "    table.set_properties({MARKS: marks})",
        (
            "tests/simulate/test_simulate.py::test_a_history_that_once_failed_is_right"
            "[windows-marked-by-an-older-state]",
        ),
    ),
    Guard(
        "readers-understood-anew",
        "D3",
        "Which rows of a view its reader needs follows from the version of the view that is current.",
        "views/versions/in_force.py",
        "            again = understood(reader, reader.definition, context.catalog, reader.seen)",
        "            again = reader",
        (f"{_BACK}::test_D3_E5_a_view_is_understood_over_the_version_that_is_current",),
    ),
    Guard(
        "rebuilt-over-the-current",
        "D3",
        "A version is computed over the versions that are current of what it reads.",
        "views/amend/rebuild.py",
        "    view = over_current(context, view)\n",
        "",
        (f"{_BACK}::test_D3_E5_a_view_is_understood_over_the_version_that_is_current",),
    ),
    Guard(
        "version-begun-with",
        "E5",
        "A version that begins with rows of an earlier one is continued as this one only.",
        "views/versions/build.py",
        " and mark.start == self._tag()",
        "",
        (f"{_BACK}::test_E5_what_an_earlier_version_begins_with_is_continued_by_nothing_else",),
    ),
    Guard(
        "newest-definition",
        "E1",
        "A command that takes long does not take back what another one has computed meanwhile.",
        "views/amend/rebuild.py",
        ", allowed=newest)",
        ")",
        ("tests/views/test_versions.py::test_E1_results_are_replaced_towards_the_newest_definition_only",),
    ),
    Guard(
        "keyed-last-step",
        "E2",
        "A state follows the last change of its log's columns, and none of before again.",
        "tables/table.py",
        "changes[behind[-1] :]",
        "changes[behind[0] :]",
        (f"{_KEYED}::test_E2_columns_that_a_table_has_had_before_keep_the_values_of_now",),
    ),
    Guard(
        "order-of-columns",
        "O1",
        "Another order of columns concerns a query that takes them by their place.",
        "plan/columns/changes.py",
        'if change.names or (change.kind == "reorder" and change.was)]',
        "if change.names]",
        (
            "tests/evolve/test_apply.py::test_O1_columns_in_another_order_concern_who_takes_them_by_their_place",
        ),
    ),
    Guard(
        "told-after-a-failure",
        "C2",
        "Who reads it is told of what a member has committed before it failed.",
        "session/live.py",
        "if committed or member.turn.failures:",
        "if committed:",
        ("tests/session/test_live.py::test_C2_what_was_committed_before_a_failure_is_closed_and_delivered",),
    ),
    Guard(
        "erasure-of-unfilled-columns",
        "E9",
        "Rows are erased from a table that has a column which no commit has filled yet.",
        "maintenance/erase_files.py",
        '    names = [name for name in target.schema.names if name in held or name != "_revision"]',
        "    names = list(target.schema.names)",
        (
            "tests/maintenance/test_erase_views.py::test_E9_a_view_that_got_a_column_which_no_commit_has_filled_yet",
        ),
    ),
    Guard(
        "joined-session-is-delivered",
        "B2",
        "A session that takes the place of one which no sink has yet is delivered in its place.",
        "views/amend/comparison.py",
        '            found = found.withColumn("_tick", F.coalesce("_tick", REPLACED_TICK)).drop(REPLACED_TICK)',
        "            found = found.drop(REPLACED_TICK)",
        (
            "tests/sinks/test_sink_amendments.py"
            "::test_B2_a_session_that_late_rows_join_before_its_delivery_is_delivered_as_joined",
        ),
    ),
    Guard(
        "log-as-of-its-definition",
        "E7",
        "A log is of the definition by which it is written in the very state that is written on.",
        "ingest/ingest.py",
        "        found, wanted = self.table.current(), relation_identity(self.relation)",
        "        wanted, found = relation_identity(self.relation), self.table.current()\n        return found",
        (
            f"{_MEANWHILE}::test_E9_an_erasure_whose_condition_is_on_columns_of_before_erases_nothing_and_says_so",
        ),
    ),
    Guard(
        "state-as-of-its-definition",
        "E2",
        "Changes are applied to a state by the columns that it and its log have then.",
        "tables/table.py",
        '        if table.property("tidegate.identity") not in (None, relation_identity(self.relation)):',
        "        if False:",
        (
            f"{_MEANWHILE}::test_E2_R2_a_change_that_was_committed_by_earlier_columns_is_applied_by_the_new_ones",
        ),
    ),
    Guard(
        "clock-behind-a-fresh-look",
        "W7",
        "The clock moves G only as long as nothing has come that no look has shown.",
        "ingest/sources/kafka.py",
        "        if decisions.advance is not None and self._broker.latest() != self._ends:",
        "        if False:",
        (
            "tests/ingest/test_kafka_partitions.py"
            "::test_W7_nobody_is_judged_by_a_clock_that_ran_past_rows_which_no_look_has_shown",
        ),
    ),
    Guard(
        "begun-once",
        "R2",
        "A table that begins with finished rows has none before, whoever made it meanwhile.",
        "views/view_table.py",
        "        if base.commit is not None and not behind:",
        "        if False:",
        (
            "tests/views/test_promote.py::test_R2_E5_what_another_machine_has_made_meanwhile_gets_no_row_twice",
        ),
    ),
    Guard(
        "edge-of-an-earlier-version",
        "E5",
        "A view that goes back knows from where on the rows of that version are kept.",
        "plan/versions.py",
        "_OF_ROWS = (VALID_FROM, RETAINED_FROM)",
        "_OF_ROWS = (VALID_FROM,)",
        (f"{_PAST}::test_E5_R5_who_goes_back_has_the_edge_of_the_retention_of_that_version",),
    ),
    Guard(
        "reading-of-both",
        "E5",
        "Where no time of both versions can be compared, the new one has read what the current one has read.",
        "views/versions/reached.py",
        "        return all(read[name] in known for",
        "        return all(True for",
        (f"{_BUILDS}::test_E5_a_version_without_a_clock_gives_way_to_who_has_read_more",),
    ),
    Guard(
        "old-reading-of-both",
        "E5",
        "What the current version had read before the new one has read all is no reason to wait.",
        "views/versions/reached.py",
        "        if base.commit == self.stood:",
        "        if False:",
        (f"{_BUILDS}::test_E5_a_version_without_a_clock_gives_way_to_who_has_read_more",),
    ),
    Guard(
        "kept-by-who-goes-back",
        "E5",
        "A view that goes back keeps the results of the current version whose rows are gone.",
        "views/versions/build.py",
        "        if self._start is not None or self.frontier() is None:",
        "        if self.frontier() is None:",
        (f"{_PAST}::test_E5_who_goes_back_keeps_what_can_not_be_computed_again",),
    ),
    Guard(
        "boundary-of-who-goes-back",
        "E5",
        "The boundary of results that were kept on the way back holds, and not that of the earlier version.",
        "views/versions/build.py",
        " if key not in built.properties}",
        "}",
        (f"{_PAST}::test_E5_who_goes_back_keeps_what_can_not_be_computed_again",),
    ),
    Guard(
        "edge-of-what-is-kept",
        "R5",
        "What is gone of the results that a version keeps is on record.",
        "views/versions/past.py",
        "        edges.append(str(min(int(retired), past.valid_from)))",
        "        pass",
        (f"{_PAST}::test_R5_E5_what_is_gone_of_the_kept_results_is_on_record",),
    ),
    Guard(
        "shorter-windows-behind-a-version",
        "E5",
        "Results that end behind the last window of the version that one goes back to are kept.",
        "views/versions/past.py",
        "    return None if frontier is None else final_upto(view, frontier)",
        "    return frontier",
        (f"{_PAST}::test_E5_who_goes_back_to_longer_windows_keeps_what_no_window_of_it_has",),
    ),
    Guard(
        "build-that-has-counted-what-is-erased",
        "E9",
        "What recomputes a view after an erasure continues no build that was begun before.",
        "maintenance/erase_recompute.py",
        "            context.forget_next(view.name)",
        "            pass",
        (f"{_ERASE}::test_E9_counts_and_sums_are_computed_from_the_rows_that_are_left",),
    ),
    Guard(
        "renamed-from-in-other-letters",
        "E2",
        "A rename is understood in whatever letters the earlier name is written.",
        "evolve/differences.py",
        "    new = _as_stored(old, new)\n",
        "",
        (f"{_NAMES}::test_E2_renamed_from_is_understood_in_any_case_of_its_letters",),
    ),
    Guard(
        "readers-of-what-was-recomputed-before",
        "E9",
        "Who finishes an erasure recomputes also what reads a view that was recomputed before.",
        "maintenance/erase_recompute.py",
        "        if held or stale_below(context, table, now) is not None:",
        "        if held:",
        (f"{_ERASE}::test_R2_E9_who_was_ended_between_two_views_has_the_other_one_recomputed",),
    ),
    Guard(
        "readers-behind-a-time",
        "E5",
        "What reads a view that has changed at its time follows it, and needs no time of its own.",
        "session/apply.py",
        " and not _follows(session, one)]",
        "]",
        (
            "tests/evolve/test_apply_at_together.py"
            "::test_R2_E5_ended_between_a_view_and_its_reader_the_same_command_continues",
        ),
    ),
    Guard(
        "unknown-results-below",
        "E8",
        "A version that does not say which results below it has read is not continued once these were replaced.",
        "views/amend/rollback.py",
        "        other = other or _unknown_below(context, old, start)",
        "        pass",
        (
            "tests/views/test_version_lives.py"
            "::test_E8_who_does_not_say_which_results_below_he_has_read_does_not_go_back_to_them",
        ),
    ),
    Guard(
        "start-of-a-build-is-kept",
        "E5",
        "The version whose rows another one begins with is kept until that one is swapped in.",
        "views/versions/keeping.py",
        " if number not in needed and tag_of(number) != begun]",
        " if number not in needed]",
        ("tests/views/test_going_back_past.py::test_E5_upkeep_spares_the_version_that_one_goes_back_to",),
    ),
    Guard(
        "version-stops-at-the-time",
        "E5",
        "The current version is computed no further than to the time at which another one takes its place.",
        "plan/closing.py",
        "    return clock if clock is None or held is None else min(clock, held)",
        "    return clock",
        (f"{_AT}::test_E5_rows_of_after_the_time_are_not_closed_by_the_earlier_version",),
    ),
    Guard(
        "time-of-the-swap-is-committed",
        "E5",
        "The current version says that it has come to the time, even if none of its windows ends there.",
        "plan/closing.py",
        "    return held is not None and clock == held and (frontier is None or frontier < held)",
        "    return False",
        (
            "tests/evolve/test_apply_at_queries.py::test_E5_what_ends_up_to_the_time_is_of_the_earlier_version",
        ),
    ),
    Guard(
        "swap-at-the-time",
        "E5",
        "A version takes its place at a time only where the current one stands at this very time.",
        "views/versions/build.py",
        "        if self.at is not None and stood != self.at:",
        "        if False:",
        (
            "tests/evolve/test_apply_at_queries.py"
            "::test_E5_a_version_takes_its_place_only_where_the_current_one_stands_at_the_time",
        ),
    ),
)

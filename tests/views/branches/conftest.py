"""A project where `local` has run, and `dev` is a branch of it."""

from tests.views.test_promote import opened as opened

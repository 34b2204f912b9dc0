"""The fifteen checks that a connection to DATEV is judged by, and the tests that hold them."""

from __future__ import annotations

from kontobahn.datev.requests import failure
from kontobahn.ledger.errors import translate_error
from kontobahn.outbound import Reply
from tests.providers.datev import test_cash_entries, test_files, test_reading, test_sign_in, test_twins

CHECKS = {
    "many calls with an expired token renew it once": (
        test_sign_in.test_twenty_calls_with_an_expired_token_renew_it_once,
        test_sign_in.test_twenty_calls_of_two_processes_with_an_expired_token_renew_it_once,
    ),
    "a lost answer to a renewal is tried once more, and then it has expired": (
        test_sign_in.test_a_lost_answer_to_a_renewal_is_tried_once_more_and_then_it_has_expired,
    ),
    "the expiry does not move": (test_sign_in.test_the_expiry_does_not_move_when_tokens_are_renewed,),
    "disconnecting revokes twice, then forgets": (
        test_sign_in.test_disconnecting_revokes_both_tokens_and_then_forgets_them,
    ),
    "a second sign-in revokes the first": (test_sign_in.test_a_second_sign_in_revokes_the_first,),
    "without the service it is never connected": (
        test_sign_in.test_a_client_without_the_service_is_never_connected,
    ),
    "accounts of every length": (test_twins.test_accounts_of_every_length_come_back_as_they_were,),
    "a discount counts once": (test_twins.test_a_payment_with_discount_clears_its_invoice_and_no_more,),
    "one job in twelve hours, and another after it is deleted": (
        test_reading.test_the_same_question_within_twelve_hours_starts_no_second_job,
        test_reading.test_a_job_that_datev_has_deleted_is_begun_again,
    ),
    "a 500 is not repeated": (test_reading.test_a_failure_is_not_repeated_by_itself,),
    "a receipt that is there already is told": (
        test_cash_entries.test_an_entry_with_a_receipt_is_booked_and_its_protocol_kept,
        test_files.test_a_received_invoice_goes_with_its_document_under_one_guid,
    ),
    "the log has no secret, for fourteen days": (
        test_reading.test_requests_are_kept_for_fourteen_days_without_a_secret,
    ),
    "polls of a job within an hour": (
        test_reading.test_a_job_is_asked_after_at_most_ten_times_an_hour,
        test_cash_entries.test_a_job_is_asked_after_at_most_ten_times_an_hour_and_given_up_after_two_days,
    ),
    "production refuses http and localhost before the sign-in": (
        test_sign_in.test_production_refuses_an_address_that_nobody_could_come_back_to,
    ),
}  # fmt: skip
BODIES = (
    b"", b"<html>", b'{"request_id": "1"}', b'{"error": "#DCO01016"}',
    b'{"type": "http://www.datev.de/hilfe/1008833", "title": "Invalid file"}',
    b'{"type": "javascript:alert(1)", "error_uri": "http://else.example"}',
)  # fmt: skip


def test_every_check_but_the_links_has_its_test() -> None:
    assert len(CHECKS) == 14
    assert all(callable(test) for tests in CHECKS.values() for test in tests)


def test_every_refusal_leads_to_a_page_of_datev() -> None:
    for status in range(400, 500):
        for body in BODIES:
            told = translate_error(failure(Reply(status, {}, body)), "https://kontobahn.example/reconnect")
            assert told.extra["details"]["helpUrl"].startswith("https://apps.datev.de/help-center/"), (status, body)

from include.local.supervisor import RestartBackoff


def test_each_death_in_a_row_waits_twice_as_long() -> None:
    restarts = RestartBackoff(limit=5, first_delay_s=0.5)
    assert [restarts.on_death(now_s=n, ran_s=1) for n in range(4)] == [0.5, 1.0, 2.0, 4.0]


def test_the_wait_never_exceeds_its_longest() -> None:
    restarts = RestartBackoff(limit=20, first_delay_s=1, longest_delay_s=5)
    assert [restarts.on_death(n, 0) for n in range(5)][-1] == 5


def test_it_gives_up_at_the_limit_and_knows_over_what_time() -> None:
    restarts = RestartBackoff(limit=3)
    delays = [restarts.on_death(now_s=now, ran_s=1) for now in (10.0, 14.0, 30.0)]
    assert delays[-1] is None
    assert None not in delays[:-1]
    assert restarts.span_s == 20.0


def test_a_long_run_forgives_earlier_deaths() -> None:
    restarts = RestartBackoff(limit=3, stable_s=60)
    restarts.on_death(0, ran_s=1)
    restarts.on_death(1, ran_s=1)
    assert restarts.on_death(now_s=100, ran_s=99) == restarts.first_delay_s
    assert len(restarts.deaths) == 1

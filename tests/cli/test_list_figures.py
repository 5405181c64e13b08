from tokenmargin import cli
from tokenmargin.experiments import registry


def test_list_names_every_figure(capsys):
    assert cli.main(["list"]) == 0
    shown = capsys.readouterr().out
    for name in registry.experiments():
        assert name in shown

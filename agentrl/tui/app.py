"""The application: which screen comes after which."""

from pathlib import Path
from typing import ClassVar

from textual.app import App
from textual.binding import Binding, BindingType
from textual.screen import Screen

from agentrl.errors import AgentRLError
from agentrl.tui.desk import Decoder, Desk, bare
from agentrl.tui.episode_screen import EpisodeScreen
from agentrl.tui.episodes_screen import EpisodesScreen
from agentrl.tui.help_screen import HelpScreen
from agentrl.tui.prompt import Prompt
from agentrl.tui.runs_screen import RunsScreen
from agentrl.tui.sources import FileSource, RunSource, Source
from agentrl.tui.watch_screen import WatchScreen


class Viewer(App[None]):
    """Reads only. `start` are the screens to begin with, outermost first."""

    CSS = """
    Footer { height: 1; }
    Static { text-wrap: nowrap; text-overflow: ellipsis; }
    """
    TITLE = "agentrl"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark", "help", "help", key_display="?", id="help"),
    ]

    def __init__(self, desk: Desk, start: list[Screen[None]]) -> None:
        super().__init__()
        self._desk, self._start = desk, start
        self._decoders: dict[str, Decoder] = {}

    def on_mount(self) -> None:
        for screen in self._start:
            self.push_screen(screen)

    async def action_back(self) -> None:
        """The screen before this one; from the first one, out."""
        if len(self.screen_stack) <= 2:
            self.exit()
        else:
            await self.pop_screen()

    def action_help_quit(self) -> None:
        """ctrl+c: as in any program of the terminal."""
        self.exit()

    def action_help(self) -> None:
        """The bindings that work here, as they are."""
        seen: dict[str, str] = {}
        for _, binding, enabled, _ in self.screen.active_bindings.values():
            if enabled and binding.description and not binding.system:
                keys = self.get_key_display(binding)
                known = seen.get(binding.description)
                seen[binding.description] = f"{known} {keys}" if known else keys
        self.push_screen(HelpScreen([(keys, what) for what, keys in seen.items()]))

    def action_find(self) -> None:
        screen = self.screen

        def found(text: str | None) -> None:
            if text is not None and isinstance(screen, RunsScreen | EpisodesScreen | EpisodeScreen):
                screen.find(text)

        self.push_screen(Prompt("/", hint="text"), found)

    def on_runs_screen_open(self, message: RunsScreen.Open) -> None:
        try:
            self.push_screen(EpisodesScreen(RunSource(message.folder)))
        except AgentRLError as error:
            self.notify(str(error), severity="error", markup=False)

    def on_runs_screen_watch(self, message: RunsScreen.Watch) -> None:
        self.push_screen(WatchScreen(self._desk, message.folder))

    def on_watch_screen_open(self, message: WatchScreen.Open) -> None:
        self.push_screen(EpisodesScreen(RunSource(message.folder)))

    def on_episodes_screen_open(self, message: EpisodesScreen.Open) -> None:
        decode = self.decoder(message.source)
        screen = EpisodeScreen(message.source, message.episode, order=message.order, decode=decode)
        self.push_screen(screen)

    def on_episodes_screen_compare(self, message: EpisodesScreen.Compare) -> None:
        decode = self.decoder(message.source)
        screen = EpisodeScreen(
            message.source, message.one, versus=message.other, view="diff", decode=decode
        )
        self.push_screen(screen)

    def decoder(self, source: Source) -> Decoder:
        """Made once a run."""
        return decoder(self._desk, source, self._decoders)


def decoder(desk: Desk, source: Source, known: dict[str, Decoder]) -> Decoder:
    if not isinstance(source, RunSource):
        return bare
    if source.name not in known:
        known[source.name] = desk.decoder(source.root)
    return known[source.name]


def browse(
    desk: Desk,
    runs: Path,
    run: Path | None,
    *,
    file: Path | None = None,
    episode: str | None = None,
    turn: int | None = None,
    where: str = "",
) -> Viewer:
    """The viewer at a place: the runs, one run, one episode of it, a file."""
    screens: list[Screen[None]] = []
    if file is None:
        screens.append(RunsScreen(desk, runs))
    source: Source | None = None
    if file is not None:
        source = FileSource(file)
    elif run is not None:
        source = RunSource(run)
    if source is not None:
        screens.append(EpisodesScreen(source, where))
        if episode is not None:
            decode = decoder(desk, source, {})
            screens.append(EpisodeScreen(source, episode, turn=turn or 0, decode=decode))
    return Viewer(desk, screens)

// Begins with what is shown first, and listens to the browser. Preact changes only what differs, so scroll, focus and selection
// stay as they are.

import { render } from "preact";
import { press } from "./commands.js";
import { begin, loadExample, share } from "./evaluation.js";
import { leave, open } from "./files.js";
import { type Beginning, beginning } from "./link.js";
import { say, showStoredTheme } from "./messages.js";
import { route } from "./navigation.js";
import { refresh } from "./reading.js";
import { change, isCluster, shownBy, state } from "./state.js";
import type { Example } from "./types.js";
import type { Engined } from "./view/cluster.js";
import { Page } from "./view/page.js";
import { Playground } from "./view/playground.js";
import { WhatIf } from "./view/whatif.js";

/** How often a live cluster is read again. */
const MINUTE = 60_000;

const engined: Engined = {
  Playground,
  WhatIf,
  leave,
  commands: () => {
    if (state.kind === "live") return [];
    if (state.cluster) return [{ label: "Close snapshot", note: "Leave", run: leave }];
    const examples = state.examples.map((example) => ({
      label: example.title,
      note: "Example",
      run: () => loadExample(example),
    }));
    return [...examples, { label: "Share", note: "Link", run: () => void share() }];
  },
};

export function start(examples: Example[], first: Beginning, isLive: boolean) {
  const root = document.getElementById("app")!;
  root.replaceChildren();
  Object.assign(state, { examples, kind: isLive ? "live" : "playground" });
  shownBy(() => render(<Page engined={engined} />, root));
  showStoredTheme();
  document.addEventListener("dragover", (event) => {
    if (event.dataTransfer?.types.includes("Files")) event.preventDefault();
  });
  document.addEventListener("keydown", press);
  document.addEventListener("drop", (event) => {
    const file = event.dataTransfer?.files[0];
    if (!file) return;
    event.preventDefault();
    void open(file);
  });
  if (isLive) {
    route(location.hash);
    window.addEventListener("popstate", () => route(location.hash));
    setInterval(() => {
      if (!state.isReading && document.visibilityState === "visible") void refresh();
    }, MINUTE);
    void refresh();
    return;
  }
  begin(first);
  window.addEventListener("hashchange", async () => {
    if (isCluster()) return;
    const wanted = await beginning(examples);
    // What is written is worth more than a link that cannot be read.
    if (wanted.problem) say(wanted.problem, "bad");
    else begin(wanted);
  });
  change();
}

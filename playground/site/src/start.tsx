// Begins with what is shown first, and listens to the browser. Preact changes only what differs, so scroll, focus and selection
// stay as they are.

import { render } from "preact";
import { App } from "./app.js";
import { type Beginning, beginning } from "./state.js";
import type { Example } from "./types.js";
import { Page } from "./view/page.js";

/** How often a live cluster is read again. */
const MINUTE = 60_000;

export function start(examples: Example[], first: Beginning, isLive: boolean) {
  const app = new App(examples, isLive, (app) => render(<Page app={app} />, document.getElementById("app")!));
  document.getElementById("app")!.replaceChildren();
  document.addEventListener("dragover", (event) => {
    if (event.dataTransfer?.types.includes("Files")) event.preventDefault();
  });
  document.addEventListener("keydown", app.press);
  document.addEventListener("drop", (event) => {
    const file = event.dataTransfer?.files[0];
    if (!file) return;
    event.preventDefault();
    void app.open(file);
  });
  if (isLive) {
    app.route(location.hash);
    window.addEventListener("popstate", () => app.route(location.hash));
    setInterval(() => {
      if (!app.isReading && document.visibilityState === "visible") void app.refresh();
    }, MINUTE);
    void app.refresh();
    return;
  }
  app.begin(first);
  window.addEventListener("hashchange", async () => {
    if (app.isCluster) return;
    const wanted = await beginning(examples);
    // What is written is worth more than a link that cannot be read.
    if (wanted.problem) app.say(wanted.problem, "bad");
    else app.begin(wanted);
  });
}

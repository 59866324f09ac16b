// A file with a cluster inside: what `kubectl headroom ui --export` writes. It needs no server, and has no engine.

import { render } from "preact";
import { press } from "./commands.js";
import { inspect } from "./inspect.js";
import { showStoredTheme } from "./messages.js";
import { route } from "./navigation.js";
import { showCluster } from "./reading.js";
import { change, shownBy, state } from "./state.js";
import { Page } from "./view/page.js";

const root = document.getElementById("app")!;
const packed = atob(document.getElementById("snapshot")!.textContent.trim());
const bytes = new Blob([Uint8Array.from(packed, (letter) => letter.charCodeAt(0))]);
const inspection = inspect(await new Response(bytes.stream().pipeThrough(new DecompressionStream("gzip"))).text());
if (!inspection) throw new Error("the file has no snapshot");
root.replaceChildren();
state.kind = "report";
shownBy(() => render(<Page engined={undefined} />, root));
showStoredTheme();
showCluster(inspection, { name: "report", scope: undefined, text: undefined });
route(location.hash);
document.addEventListener("keydown", press);
window.addEventListener("popstate", () => route(location.hash));
// On paper there is nothing to click: all views are printed, one after the other.
window.addEventListener("beforeprint", () => change({ isPrinted: true }));
window.addEventListener("afterprint", () => change({ isPrinted: false }));
document.documentElement.dataset.cluster = "shown";

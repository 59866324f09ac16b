// Starts the engine and asks it the first question, while the editor, which is most of the page, is still being loaded.

import { engine } from "./engine.js";
import { beginning } from "./state.js";
import type { Example } from "./types.js";

const examples = (await (await fetch("examples.json")).json()) as Example[];
const first = await beginning(examples);
engine.judgeEarly(first.state);
const { start } = await import("./page.js");
start(examples, first);

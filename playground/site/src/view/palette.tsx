// All that can be done by keys: a list of commands, and of workloads and quotas by name (Ctrl-K, ⌘K).

import { useEffect, useRef, useState } from "preact/hooks";
import type { Command } from "../commands.js";
import { search } from "../list.js";

/** So many are listed. */
const LISTED = 12;

export function Palette({ commands, close }: { commands: (search: string) => Command[]; close: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  useEffect(() => dialog.current!.showModal(), []);
  const finds = search(text);
  const found = commands(text)
    .filter(({ label, note }) => finds([label, note]))
    .slice(0, LISTED);
  const run = (command: Command | undefined) => {
    if (!command) return;
    close();
    command.run();
  };
  const press = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step !== undefined) setAt((at + step + found.length) % Math.max(1, found.length));
    else if (event.key === "Enter") run(found[at]);
    else return;
    event.preventDefault();
  };
  return (
    <dialog
      ref={dialog}
      class="palette"
      aria-label="Commands"
      onClose={close}
      onClick={(event) => event.target === dialog.current && close()}
    >
      <input
        type="text"
        role="combobox"
        aria-label="Command"
        aria-expanded="true"
        aria-controls="commands"
        aria-activedescendant={found[at] ? `command-${at}` : undefined}
        autocomplete="off"
        spellcheck={false}
        placeholder="Go to a workload, a view or a command"
        value={text}
        onInput={(event) => {
          setText(event.currentTarget.value);
          setAt(0);
        }}
        onKeyDown={press}
      />
      <ul id="commands" role="listbox" aria-label="Commands">
        {found.map((command, index) => (
          <li
            key={`${command.note} ${command.label}`}
            id={`command-${index}`}
            role="option"
            aria-selected={index === at}
            onMouseMove={() => setAt(index)}
            onClick={() => run(command)}
          >
            <span>{command.label}</span>
            <kbd>{command.note}</kbd>
          </li>
        ))}
      </ul>
      {found.length === 0 && <p class="blank">Nothing matches.</p>}
    </dialog>
  );
}

// The playground: manifests and the objects around them, beside what becomes of them.

import { useRef } from "preact/hooks";
import { choose, exportPolicy, host, loadExample, share } from "../evaluation.js";
import { open } from "../files.js";
import { state } from "../state.js";
import { PANELS } from "../types.js";
import { Columns } from "./columns.js";
import { Counters, Results } from "./verdicts.js";

export function Playground() {
  const { outcome, failure, examples } = state;
  const file = useRef<HTMLInputElement>(null);
  const groups = [...new Set(examples.map(({ group }) => group))];
  const isEmpty = outcome !== undefined && outcome.rows.length === 0 && outcome.problems.length === 0;
  const openFile = (
    <button type="button" id="open-file" onClick={() => file.current?.click()}>
      Open file…
    </button>
  );
  return (
    <main>
      <div class="tools" role="group" aria-label="Tools">
        <label class="field">
          Example
          <select
            id="example"
            value={state.example?.name ?? ""}
            onChange={(event) => {
              const found = examples.find(({ name }) => name === event.currentTarget.value);
              if (found) loadExample(found);
            }}
          >
            <option value="">Your own</option>
            {groups.map((group) => (
              <optgroup key={group} label={group}>
                {examples
                  .filter((example) => example.group === group)
                  .map(({ name, title }) => (
                    <option key={name} value={name}>
                      {title}
                    </option>
                  ))}
              </optgroup>
            ))}
          </select>
        </label>
        <p id="shows">{state.example?.shows ?? ""}</p>
        <button type="button" class="primary" onClick={() => void share()}>
          Share
        </button>
        {openFile}
        <button type="button" onClick={() => void exportPolicy()}>
          Export policy
        </button>
        <input
          ref={file}
          type="file"
          id="snapshot"
          accept=".json,.yaml,.yml"
          hidden
          aria-label="File"
          onChange={(event) => {
            const [chosen] = event.currentTarget.files ?? [];
            if (chosen) void open(chosen);
            event.currentTarget.value = "";
          }}
        />
      </div>
      <Columns panels={PANELS} ready>
        <div id="status" class="counters" role="status">
          {failure !== undefined ? (
            <p class="card problems">The engine failed: {failure}</p>
          ) : outcome === undefined ? (
            <p class="loading">Loading the engine…</p>
          ) : isEmpty ? (
            <span class="hidden">No objects.</span>
          ) : (
            <Counters outcome={outcome} milliseconds={state.milliseconds} />
          )}
        </div>
        <div id="results">
          {outcome && !isEmpty && failure === undefined && <Results outcome={outcome} from={state.from} />}
          {isEmpty && (
            <section class="card section empty">
              <h2>Nothing to evaluate yet</h2>
              <p>Paste a manifest into the editor, drop a file anywhere, or start from an example.</p>
              <p class="buttons">
                <button type="button" class="primary" onClick={() => loadExample(examples[0]!)}>
                  Load an example
                </button>
                {openFile}
                <button
                  type="button"
                  onClick={() => {
                    choose("objects");
                    host.focus();
                  }}
                >
                  Write one
                </button>
              </p>
            </section>
          )}
        </div>
      </Columns>
    </main>
  );
}

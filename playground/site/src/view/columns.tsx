// The editor with its panels, beside what becomes of their texts.

import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { count } from "../amounts.js";
import { changed, choose, editor, host } from "../evaluation.js";
import { LABELS } from "../panels.js";
import { change, isCluster, state } from "../state.js";
import type { Panel } from "../types.js";

/** The editor beside what becomes of it; in a narrow window one of both. */
export function Columns({
  panels,
  ready,
  children,
}: {
  panels: readonly Panel[];
  ready: boolean;
  children: ComponentChildren;
}) {
  const pane = (name: typeof state.pane, label: string) => (
    <button type="button" aria-pressed={state.pane === name} onClick={() => change({ pane: name })}>
      {label}
    </button>
  );
  return (
    <div class="columns" data-pane={state.pane}>
      <div class="panes segments" role="group" aria-label="Part of the page">
        {pane("verdict", isCluster() ? "Effect" : "Verdict")}
        {pane("edit", "Edit")}
      </div>
      <section class="card input" aria-label="Input">
        <PanelTabs panels={panels} />
        <EditorHost />
        {!isCluster() && (
          <footer>
            <label class="field">
              Namespace of objects that name none
              <input
                id="namespace"
                autocomplete="off"
                autocapitalize="off"
                spellcheck={false}
                placeholder="default"
                maxLength={63}
                value={state.namespace}
                onInput={(event) => {
                  state.namespace = event.currentTarget.value;
                  changed();
                }}
              />
            </label>
          </footer>
        )}
        {!ready && (
          <p class="loading cover" role="status">
            Loading…
          </p>
        )}
      </section>
      <section class="output" aria-labelledby="results-heading">
        <h2 id="results-heading" tabIndex={-1} class="hidden">
          Results
        </h2>
        {children}
      </section>
    </div>
  );
}

function EditorHost() {
  const frame = useRef<HTMLDivElement>(null);
  useEffect(() => frame.current!.append(host), []);
  return <div class="frame" ref={frame} />;
}

function PanelTabs({ panels }: { panels: readonly Panel[] }) {
  const move = (event: KeyboardEvent) => {
    const at = panels.indexOf(state.panel);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1 + panels.length, Home: 0, End: panels.length - 1 }[event.key];
    if (to === undefined) return;
    const next = panels[to % panels.length]!;
    choose(next);
    document.getElementById(`tab-${next}`)?.focus();
    event.preventDefault();
  };
  return (
    <div id="tabs" role="tablist" aria-label="Panels" onKeyDown={move}>
      {panels.map((panel) => {
        const problems = state.problems.get(panel) ?? 0;
        return (
          <button
            key={panel}
            type="button"
            role="tab"
            id={`tab-${panel}`}
            aria-controls="editor"
            aria-selected={state.panel === panel}
            tabIndex={state.panel === panel ? 0 : -1}
            class={`${editor.text(panel).trim() !== "" ? "filled" : ""} ${panel === "limitRanges" || panel === "settings" ? "next" : ""}`}
            onClick={() => choose(panel)}
          >
            {LABELS[panel]}
            {problems > 0 && (
              <span class="dot" title={count(problems, "problem")}>
                <span class="hidden"> {count(problems, "problem")}</span>
              </span>
            )}
          </button>
        );
      })}
    </div>
  );
}

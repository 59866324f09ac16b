// The frame of the page, with the playground or a cluster in it.

import { useEffect, useRef } from "preact/hooks";
import { type App, TABS, type Tab } from "../app.js";
import { count } from "../amounts.js";
import { write } from "../list.js";
import { TRIED } from "../panels.js";
import { PANELS, type Panel } from "../types.js";
import { Overview } from "./overview.js";
import { Palette } from "./palette.js";
import { Logo } from "./parts.js";
import { QuotaView } from "./quotas.js";
import { Counters, Results } from "./verdicts.js";
import { TrialCounters, TrialResults } from "./whatif.js";
import { Workloads } from "./workloads.js";

// From policy-metadata.yaml (build.mjs).
declare const DOCS: string;
declare const CODE: string;

export function Page({ app }: { app: App }) {
  return (
    <>
      <a
        class="skip"
        id="skip"
        href={app.isCluster ? "#main" : "#results-heading"}
        onClick={(event) => {
          event.preventDefault();
          app.pane = "verdict";
          app.draw();
          document.querySelector<HTMLElement>("#results-heading, #main")?.focus();
        }}
      >
        Skip to the results
      </a>
      <header class="top">
        <h1 class="brand">
          <Logo />
          Headroom{" "}
          {app.cluster?.context ? (
            <span class="context" title="The cluster of this context">
              {app.cluster.context}
            </span>
          ) : (
            !app.isLive && <span>playground</span>
          )}
        </h1>
        {app.isCluster ? (
          <Tabs app={app} />
        ) : (
          <p class="tagline">
            See what Kubernetes limits and quotas do to your manifests, before you apply them. Runs in your browser;
            nothing is uploaded.
          </p>
        )}
        <nav aria-label="Links">
          <a href={DOCS} target="_blank" rel="noopener">
            Docs
          </a>
          {!app.isLive && (
            <a href={CODE} target="_blank" rel="noopener">
              GitHub
            </a>
          )}
          {!app.isCluster && (
            <a href={`${DOCS}tasks/install-with-helm.html`} target="_blank" rel="noopener">
              Install
            </a>
          )}
          <button
            type="button"
            class="keys"
            title="Commands"
            onClick={() => {
              app.isPaletteOpen = true;
              app.draw();
            }}
          >
            <span class="rest">Commands</span> <kbd>{/Mac/.test(navigator.platform) ? "⌘" : "Ctrl "}K</kbd>
          </button>
          <button
            type="button"
            class="icon"
            id="theme"
            title="Dark or light"
            aria-label="Dark or light"
            onClick={app.turnTheme}
          >
            ◐
          </button>
        </nav>
      </header>
      {app.isCluster ? <ClusterPage app={app} /> : <Playground app={app} />}
      {app.isPaletteOpen && <Palette commands={app.commands} close={app.closePalette} />}
      {app.toast && (
        <div class={`card toast ${app.toast.tone}`} id="message" role={app.toast.tone === "bad" ? "alert" : "status"}>
          <p>{app.toast.text}</p>
          <button type="button" class="plain" aria-label="Dismiss" onClick={app.hush}>
            ✕
          </button>
          {app.toast.field !== undefined && (
            <textarea readOnly rows={3} aria-label={app.toast.text}>
              {app.toast.field}
            </textarea>
          )}
        </div>
      )}
    </>
  );
}

const Tabs = ({ app }: { app: App }) => (
  <nav class="tabs" aria-label="Views">
    {(Object.keys(TABS) as Tab[]).map((tab) => {
      const href = tab === "workloads" ? write({ ...app.list, at: undefined }) : `#${tab}`;
      return (
        <a
          key={tab}
          href={href}
          aria-current={app.tab === tab ? "page" : undefined}
          onClick={(event) => {
            event.preventDefault();
            app.show(href);
          }}
        >
          {TABS[tab]}
        </a>
      );
    })}
  </nav>
);

function ClusterPage({ app }: { app: App }) {
  const { cluster, clusterError } = app;
  return (
    <>
      {clusterError !== undefined && (
        <div class="banner bad" role="alert">
          <div>
            <b>
              {cluster
                ? `Shown as of ${cluster.readAt.toLocaleTimeString()}: the cluster cannot be read now`
                : "The cluster cannot be read"}
            </b>
            {clusterError}
          </div>
          <button type="button" onClick={() => void app.refresh()} disabled={app.isReading}>
            Try again
          </button>
        </div>
      )}
      {cluster && clusterError === undefined && cluster.missed.length > 0 && (
        <div class="banner" role="status">
          <div>
            <b>Not everything could be read</b>
            {cluster.missed.join("; ")}
          </div>
        </div>
      )}
      <main id="main" tabIndex={-1}>
        <ClusterBar app={app} />
        {cluster ? (
          <ClusterView app={app} />
        ) : (
          clusterError === undefined && (
            <p class="loading" role="status">
              {app.progress || "Reading the cluster"}…
            </p>
          )
        )}
      </main>
    </>
  );
}

const ClusterBar = ({ app }: { app: App }) => (
  <div class="tools cluster" role="group" aria-label="Cluster">
    {app.cluster && (
      <p id="shows">
        {app.cluster.context && <b>{app.cluster.context}: </b>}
        {app.cluster.scope === undefined && !app.cluster.context ? `${app.cluster.name}: ` : ""}
        {app.extent}
        {app.cluster.inspection.advice?.source && ` · ${app.cluster.inspection.advice.source}`}
      </p>
    )}
    {app.isLive ? (
      <>
        <label class="field">
          Scope
          <input
            id="scope"
            list="namespaces"
            autocomplete="off"
            autocapitalize="off"
            spellcheck={false}
            placeholder={everything(app.cluster?.inspection.namespaces ?? [])}
            maxLength={63}
            defaultValue={new URLSearchParams(location.search).get("namespace") ?? ""}
            onChange={(event) => app.enter(event.currentTarget.value.trim())}
          />
          <datalist id="namespaces">
            {app.cluster?.inspection.namespaces.map((name) => (
              <option key={name} value={name} />
            ))}
          </datalist>
        </label>
        <button
          type="button"
          id="refresh"
          onClick={() => void app.refresh()}
          aria-disabled={app.isReading}
          title="Also every minute, by itself"
        >
          {app.isReading ? "Reading…" : "Refresh"}
        </button>
        {app.cluster && (
          <span class="muted">
            {app.isReading && app.progress ? (
              app.progress
            ) : (
              <>
                <span class="rest">read </span>
                {app.cluster.readAt.toLocaleTimeString()}
              </>
            )}
          </span>
        )}
      </>
    ) : (
      <button type="button" id="leave" onClick={app.leave}>
        Close snapshot
      </button>
    )}
  </div>
);

/** What is shown while no namespace is chosen. */
const everything = (namespaces: string[]) =>
  namespaces.length === 1
    ? namespaces[0]!
    : namespaces.length === 0
      ? "as started"
      : `all ${namespaces.length.toLocaleString("en")}`;

function ClusterView({ app }: { app: App }) {
  const { inspection, missed } = app.cluster!;
  switch (app.tab) {
    case "overview":
      return <Overview inspection={inspection} missed={missed} show={app.show} />;
    case "workloads":
      return (
        <Workloads
          cluster={app.cluster!}
          list={app.list}
          set={app.setList}
          copy={(text, what) => void app.copy(text, what)}
          change={app.isLive ? app.change : undefined}
        />
      );
    case "quotas":
      return (
        <QuotaView
          inspection={inspection}
          isProposed={app.isProposed}
          bounds={app.bounds}
          show={app.isLive ? app.show : undefined}
          copy={(text, what) => void app.copy(text, what)}
        />
      );
    case "what-if":
      return <WhatIf app={app} />;
  }
}

function WhatIf({ app }: { app: App }) {
  const { opened, inspection } = app.cluster!;
  return (
    <Columns app={app} panels={TRIED} ready={opened !== undefined || app.failure !== undefined}>
      <div id="status" class="counters" role="status">
        {app.failure ? (
          <p class="problems card">The preview failed: {app.failure}</p>
        ) : app.trial ? (
          <TrialCounters trial={app.trial} milliseconds={app.milliseconds} />
        ) : (
          <p class="loading">Evaluating everything that runs…</p>
        )}
      </div>
      <div id="results">
        {app.trial && opened && (
          <TrialResults
            trial={app.trial}
            overview={opened.overview}
            advice={inspection.advice}
            from={app.from}
            actions={app}
          />
        )}
      </div>
    </Columns>
  );
}

function Playground({ app }: { app: App }) {
  const { outcome, failure, examples } = app;
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
            value={app.example?.name ?? ""}
            onChange={(event) => {
              const found = examples.find(({ name }) => name === event.currentTarget.value);
              if (found) app.loadExample(found);
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
        <p id="shows">{app.example?.shows ?? ""}</p>
        <button type="button" class="primary" onClick={() => void app.share()}>
          Share
        </button>
        {openFile}
        <button type="button" onClick={() => void app.exportPolicy()}>
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
            if (chosen) void app.open(chosen);
            event.currentTarget.value = "";
          }}
        />
      </div>
      <Columns app={app} panels={PANELS} ready>
        <div id="status" class="counters" role="status">
          {failure !== undefined ? (
            <p class="card problems">The engine failed: {failure}</p>
          ) : outcome === undefined ? (
            <p class="loading">Loading the engine…</p>
          ) : isEmpty ? (
            <span class="hidden">No objects.</span>
          ) : (
            <Counters outcome={outcome} milliseconds={app.milliseconds} />
          )}
        </div>
        <div id="results">
          {outcome && !isEmpty && failure === undefined && <Results outcome={outcome} from={app.from} actions={app} />}
          {isEmpty && (
            <section class="card section empty">
              <h2>Nothing to evaluate yet</h2>
              <p>Paste a manifest into the editor, drop a file anywhere, or start from an example.</p>
              <p class="buttons">
                <button type="button" class="primary" onClick={() => app.loadExample(examples[0]!)}>
                  Load an example
                </button>
                {openFile}
                <button
                  type="button"
                  onClick={() => {
                    app.choose("objects");
                    app.host.focus();
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

/** The editor beside what becomes of it; in a narrow window one of both. */
function Columns({
  app,
  panels,
  ready,
  children,
}: {
  app: App;
  panels: readonly Panel[];
  ready: boolean;
  children: preact.ComponentChildren;
}) {
  const pane = (name: App["pane"], label: string) => (
    <button
      type="button"
      aria-pressed={app.pane === name}
      onClick={() => {
        app.pane = name;
        app.draw();
      }}
    >
      {label}
    </button>
  );
  return (
    <div class="columns" data-pane={app.pane}>
      <div class="panes segments" role="group" aria-label="Part of the page">
        {pane("verdict", app.isCluster ? "Effect" : "Verdict")}
        {pane("edit", "Edit")}
      </div>
      <section class="card input" aria-label="Input">
        <PanelTabs app={app} panels={panels} />
        <EditorHost app={app} />
        {!app.isCluster && (
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
                value={app.namespace}
                onInput={(event) => {
                  app.namespace = event.currentTarget.value;
                  app.changed();
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

function EditorHost({ app }: { app: App }) {
  const frame = useRef<HTMLDivElement>(null);
  useEffect(() => frame.current!.append(app.host), []);
  return <div class="frame" ref={frame} />;
}

function PanelTabs({ app, panels }: { app: App; panels: readonly Panel[] }) {
  const move = (event: KeyboardEvent) => {
    const at = panels.indexOf(app.panel);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1 + panels.length, Home: 0, End: panels.length - 1 }[event.key];
    if (to === undefined) return;
    const next = panels[to % panels.length]!;
    app.choose(next);
    document.getElementById(`tab-${next}`)?.focus();
    event.preventDefault();
  };
  return (
    <div id="tabs" role="tablist" aria-label="Panels" onKeyDown={move}>
      {panels.map((panel) => {
        const problems = app.problems.get(panel) ?? 0;
        return (
          <button
            key={panel}
            type="button"
            role="tab"
            id={`tab-${panel}`}
            aria-controls="editor"
            aria-selected={app.panel === panel}
            tabIndex={app.panel === panel ? 0 : -1}
            class={`${app.editor.text(panel).trim() !== "" ? "filled" : ""} ${panel === "limitRanges" || panel === "settings" ? "next" : ""}`}
            onClick={() => app.choose(panel)}
          >
            {app.label(panel)}
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

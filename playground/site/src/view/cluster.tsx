// A cluster: what is shown of it, what could not be read, and one of its views; before the first answer, the shape of that view.

import type { ComponentType } from "preact";
import { count } from "../amounts.js";
import type { Command } from "../commands.js";
import type { Inspection } from "../inspect.js";
import { enter } from "../navigation.js";
import { refresh } from "../reading.js";
import { type Cluster, type Tab, isLive, state, tabs } from "../state.js";
import { Overview } from "./overview.js";
import { Ticked, dated, sentence } from "./parts.js";
import { QuotaView } from "./quotas.js";
import { Waiting } from "./waiting.js";
import { Workloads } from "./workloads.js";

/** The parts of the page that need the engine, which a file with a cluster inside has not. */
export interface Engined {
  Playground: ComponentType;
  WhatIf: ComponentType;
  /** Commands of the palette besides those of a cluster. */
  commands: () => Command[];
  /** Closes a snapshot. */
  leave: () => void;
}

export function ClusterPage({ engined }: { engined: Engined | undefined }) {
  const { cluster, clusterError, isReading } = state;
  return (
    <>
      {clusterError !== undefined && (
        <div class="banner bad" role="alert">
          <div>
            <b>
              {cluster
                ? `Shown as of ${cluster.inspection.madeAt.toLocaleTimeString("en-GB")}: the cluster cannot be read now`
                : "The cluster cannot be read"}
            </b>
            {clusterError}
          </div>
          <button type="button" onClick={() => void refresh()} disabled={isReading}>
            Try again
          </button>
        </div>
      )}
      {cluster && clusterError === undefined && <Missing inspection={cluster.inspection} />}
      <main id="main" tabIndex={-1}>
        <div class="tools cluster" role="group" aria-label="Cluster">
          {cluster && <Shown cluster={cluster} />}
          {isLive() && <Scope cluster={cluster} />}
          {state.kind === "report" && cluster && (
            <span class="muted">
              made {cluster.inspection.madeAt.toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" })}
            </span>
          )}
          {state.kind === "playground" && (
            <button type="button" id="leave" onClick={engined?.leave}>
              Close snapshot
            </button>
          )}
        </div>
        {cluster
          ? (state.isPrinted ? tabs() : [state.tab]).map((tab) => (
              <View key={tab} tab={tab} cluster={cluster} engined={engined} />
            ))
          : clusterError === undefined && <Waiting />}
      </main>
    </>
  );
}

/** What could not be read, and what is therefore not known. */
function Missing({ inspection: { missed, unknown, isFirst } }: { inspection: Inspection }) {
  const banner = (tone: string, title: string, text: string) => (
    <div class={`banner ${tone}`} role="status">
      <div>
        <b>{title}</b>
        <Ticked text={text} />
      </div>
    </div>
  );
  return (
    <>
      {missed.length > 0 && banner("", "Not everything could be read", missed.join("; "))}
      {unknown !== "" && !isFirst && banner("unknown", "Usage is not known", sentence(unknown))}
    </>
  );
}

/** `prod: 158 objects in 5 namespaces · Usage from Prometheus, 9 to 23 Nov` */
function Shown({ cluster: { name, inspection } }: { cluster: Cluster }) {
  const { context, advice, objects, namespaces, unknown } = inspection;
  return (
    <p id="shows">
      {context && <b>{context}: </b>}
      {state.kind === "playground" && !context && `${name}: `}
      {count(objects, "object")} in {count(namespaces.length, "namespace")}
      {advice?.source && unknown === "" && <span title={advice.source}> · {sourceOf(advice.source)}</span>}
    </p>
  );
}

/** `Usage from Prometheus, 9 to 23 Nov 2026`: its steps and hours are in the title. */
const sourceOf = (source: string) => dated(source.replace(/, step .*$/, "").replaceAll(/T\d\d:\d\d:\d\dZ/g, ""));

function Scope({ cluster }: { cluster: Cluster | undefined }) {
  const { isReading, progress } = state;
  const namespaces = cluster?.inspection.namespaces ?? [];
  return (
    <>
      <label class="field">
        Scope
        <input
          id="scope"
          list="namespaces"
          autocomplete="off"
          autocapitalize="off"
          spellcheck={false}
          placeholder={everything(namespaces)}
          maxLength={63}
          defaultValue={new URLSearchParams(location.search).get("namespace") ?? ""}
          onChange={(event) => enter(event.currentTarget.value.trim())}
        />
        <datalist id="namespaces">
          {namespaces.map((name) => (
            <option key={name} value={name} />
          ))}
        </datalist>
      </label>
      <button
        type="button"
        id="refresh"
        onClick={() => void refresh()}
        aria-disabled={isReading}
        title="Also every minute, by itself"
      >
        {isReading ? "Reading…" : "Refresh"}
      </button>
      {cluster && (
        <span class="muted">
          {isReading && progress ? (
            progress
          ) : (
            <>
              <span class="rest">read </span>
              {cluster.inspection.madeAt.toLocaleTimeString("en-GB")}
            </>
          )}
        </span>
      )}
    </>
  );
}

/** What is shown while no namespace is chosen. */
const everything = (namespaces: string[]) =>
  namespaces.length === 1
    ? namespaces[0]!
    : namespaces.length === 0
      ? "as started"
      : `all ${namespaces.length.toLocaleString("en")}`;

function View({ tab, cluster, engined }: { tab: Tab; cluster: Cluster; engined: Engined | undefined }) {
  switch (tab) {
    case "overview":
      return <Overview inspection={cluster.inspection} />;
    case "workloads":
      return <Workloads cluster={cluster} />;
    case "quotas":
      return <QuotaView inspection={cluster.inspection} />;
    case "what-if":
      return engined ? <engined.WhatIf /> : null;
  }
}

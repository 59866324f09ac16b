// The frame of the page, with the playground or a cluster in it.

import { commands } from "../commands.js";
import { write } from "../list.js";
import { hush, turnTheme } from "../messages.js";
import { show } from "../navigation.js";
import { TABS, change, focusOn, isCluster, isLive, state, tabs } from "../state.js";
import { ClusterPage, type Engined } from "./cluster.js";
import { Palette } from "./palette.js";
import { Logo } from "./parts.js";

// From policy-metadata.yaml (build.mjs).
declare const DOCS: string;
declare const CODE: string;

export function Page({ engined }: { engined: Engined | undefined }) {
  const { cluster, toast } = state;
  const link = (href: string, text: string) => (
    <a href={href} target="_blank" rel="noopener">
      {text}
    </a>
  );
  const skip = (event: Event) => {
    event.preventDefault();
    change({ pane: "verdict" });
    focusOn("#results-heading, #main");
  };
  return (
    <>
      <a class="skip" id="skip" href={isCluster() ? "#main" : "#results-heading"} onClick={skip}>
        Skip to the results
      </a>
      <header class="top">
        <h1 class="brand">
          <Logo />
          Headroom{" "}
          {cluster?.inspection.context ? (
            <span class="context" title="The cluster of this context">
              {cluster.inspection.context}
            </span>
          ) : (
            state.kind === "playground" && <span>playground</span>
          )}
        </h1>
        {isCluster() ? (
          <Tabs />
        ) : (
          <p class="tagline">
            See what Kubernetes limits and quotas do to your manifests, before you apply them. Runs in your browser;
            nothing is uploaded.
          </p>
        )}
        <nav aria-label="Links">
          {link(DOCS, "Docs")}
          {!isLive() && link(CODE, "GitHub")}
          {!isCluster() && link(`${DOCS}tasks/install-with-helm.html`, "Install")}
          <button type="button" class="keys" title="Commands" onClick={() => change({ isPaletteOpen: true })}>
            <span class="rest">Commands</span> <kbd>{/Mac/.test(navigator.platform) ? "⌘" : "Ctrl "}K</kbd>
          </button>
          <button
            type="button"
            class="icon"
            id="theme"
            title="Dark or light"
            aria-label="Dark or light"
            onClick={turnTheme}
          >
            ◐
          </button>
        </nav>
      </header>
      {isCluster() || !engined ? <ClusterPage engined={engined} /> : <engined.Playground />}
      {state.isPaletteOpen && (
        <Palette
          commands={(search) => commands(search, engined?.commands() ?? [])}
          close={() => change({ isPaletteOpen: false })}
        />
      )}
      {toast && (
        <div class={`card toast ${toast.tone}`} id="message" role={toast.tone === "bad" ? "alert" : "status"}>
          <p>{toast.text}</p>
          <button type="button" class="plain" aria-label="Dismiss" onClick={hush}>
            ✕
          </button>
          {toast.field !== undefined && (
            <textarea readOnly rows={3} aria-label={toast.text}>
              {toast.field}
            </textarea>
          )}
        </div>
      )}
    </>
  );
}

const Tabs = () => (
  <nav class="tabs" aria-label="Views">
    {tabs().map((tab) => {
      const href = tab === "workloads" ? write({ ...state.list, at: undefined }) : `#${tab}`;
      const go = (event: Event) => {
        event.preventDefault();
        show(href);
      };
      return (
        <a key={tab} href={href} aria-current={state.tab === tab ? "page" : undefined} onClick={go}>
          {TABS[tab]}
        </a>
      );
    })}
  </nav>
);

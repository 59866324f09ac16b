// The editor: one view, and one text with its history a panel.
//
// It stands in a shadow root, where its styles are sheets made by script and not `<style>` elements, so that the page's
// Content Security Policy need not allow inline styles.

import {
  autocompletion,
  closeBrackets,
  closeBracketsKeymap,
  completionKeymap,
  type CompletionContext,
  type CompletionResult,
} from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import { HighlightStyle, bracketMatching, indentOnInput, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { type Diagnostic, forEachDiagnostic, lintGutter, lintKeymap, setDiagnostics } from "@codemirror/lint";
import { EditorState, type Extension } from "@codemirror/state";
import {
  EditorView,
  ViewPlugin,
  drawSelection,
  highlightActiveLine,
  hoverTooltip,
  keymap,
  lineNumbers,
  placeholder,
} from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { amount, thousandths } from "./amounts.js";
import type { Edit, Mark } from "./explain.js";
import { HINTS, LABELS } from "./panels.js";
import { placeOf, schemaAt } from "./schema.js";
import type { Panel, Panels } from "./types.js";

const MOST_MARKS = 500;

export class Editor {
  #view: EditorView;
  #panel: Panel;
  #states = new Map<Panel, EditorState>();
  #marks = new Map<Panel, Mark[]>();

  constructor(
    host: HTMLElement,
    panel: Panel,
    private readonly changed: () => void,
  ) {
    this.#panel = panel;
    const root = host.attachShadow({ mode: "open", delegatesFocus: true });
    this.#view = new EditorView({ root, parent: root, state: this.#state(panel, "") });
  }

  /** Replaces all texts, and forgets what could be undone. */
  load(panels: Panels) {
    this.#states.clear();
    this.#marks.clear();
    for (const [panel, text] of Object.entries(panels) as [Panel, string][])
      this.#states.set(panel, this.#state(panel, text));
    this.#view.setState(this.#stateOf(this.#panel));
  }

  /** Replaces the text of one panel. */
  replace(panel: Panel, text: string) {
    if (text === this.text(panel)) return;
    this.#states.set(panel, this.#state(panel, text));
    if (panel === this.#panel) this.#view.setState(this.#stateOf(panel));
  }

  show(panel: Panel) {
    this.#states.set(this.#panel, this.#view.state);
    this.#panel = panel;
    this.#view.setState(this.#stateOf(panel));
    this.#showMarks();
  }

  text(panel: Panel): string {
    const state = panel === this.#panel ? this.#view.state : this.#states.get(panel);
    return state?.doc.toString() ?? "";
  }

  /** Marks lines; what was marked before is unmarked. */
  mark(marks: Map<Panel, Mark[]>) {
    this.#marks = marks;
    this.#showMarks();
  }

  /** Changes the text as a person would, so that it can be undone. */
  edit(changes: Edit[]) {
    this.#view.dispatch({ changes, userEvent: "input.fix" });
  }

  goTo(line: number) {
    const { doc } = this.#view.state;
    const { from } = doc.line(Math.min(Math.max(line, 1), doc.lines));
    this.#view.dispatch({ selection: { anchor: from }, effects: EditorView.scrollIntoView(from, { y: "center" }) });
    this.#view.focus();
  }

  #stateOf(panel: Panel): EditorState {
    return this.#states.get(panel) ?? this.#state(panel, "");
  }

  #state(panel: Panel, doc: string): EditorState {
    return EditorState.create({
      doc,
      extensions: [
        extensions,
        completion(panel),
        hover(panel),
        placeholder(HINTS[panel]),
        this.#names(panel),
        this.#listener,
      ],
    });
  }

  #names(panel: Panel): Extension {
    return EditorView.contentAttributes.of({
      "aria-label": `${LABELS[panel]} (YAML)`,
      "data-panel": panel,
      tabindex: "0",
    });
  }

  /** A plugin hears of a change before the editor draws it, so the engine evaluates it meanwhile; a listener hears of it afterwards. */
  #listener = ViewPlugin.define(() => ({
    update: ({ docChanged }) => {
      if (docChanged) this.changed();
    },
  }));

  #showMarks() {
    const { doc } = this.#view.state;
    const marks = (this.#marks.get(this.#panel) ?? []).slice(0, MOST_MARKS);
    const diagnostics = marks.map(({ line, severity, text, span, fix }): Diagnostic => {
      const at = doc.line(Math.min(Math.max(line, 1), doc.lines));
      const whole = { from: at.from + (at.text.length - at.text.trimStart().length), to: at.to };
      const { from, to } = span && span.to <= doc.length ? span : whole;
      const actions = fix
        ? [
            {
              name: fix.name,
              apply: (view: EditorView) => view.dispatch({ changes: fix.changes, userEvent: "input.fix" }),
            },
          ]
        : [];
      return { from, to, severity, message: text, actions };
    });
    // Each setting of marks draws the editor anew.
    if (!isMarked(this.#view.state, diagnostics)) this.#view.dispatch(setDiagnostics(this.#view.state, diagnostics));
  }
}

/** Whether a state has these marks already, and no others. */
function isMarked(state: EditorState, wanted: Diagnostic[]): boolean {
  const told = ({ severity, message }: Diagnostic, from: number, to: number) =>
    JSON.stringify([from, to, severity, message]);
  const marked: string[] = [];
  forEachDiagnostic(state, (mark, from, to) => marked.push(told(mark, from, to)));
  const missing = new Set(wanted.map((mark) => told(mark, mark.from, mark.to)));
  return marked.length === wanted.length && marked.every((mark) => missing.delete(mark));
}

function completion(panel: Panel): Extension {
  const source = (context: CompletionContext): CompletionResult | null => {
    const { doc } = context.state;
    const line = doc.lineAt(context.pos);
    const before = line.text.slice(0, context.pos - line.from);
    // Enough of the text to find the document's beginning, however long the text is.
    const first = Math.max(1, line.number - 2_000);
    const lines: string[] = [];
    for (let number = first; number <= Math.min(doc.lines, line.number + 200); number++)
      lines.push(doc.line(number).text);
    const at = line.number - first;
    const value = /^(\s*(?:- +)*[^\s:]+:\s+)(\S*)$/.exec(before);
    const key = /^(\s*(?:- +)*)([^\s:]*)$/.exec(before);
    if (value) {
      const place = placeOf(lines, at);
      const field = value[1]!.trim().replaceAll(/^(- +)+|:$/g, "");
      const values = schemaAt(panel, { ...place, path: [...place.path, field] })?.values;
      if (!values) return null;
      const quoted = (label: string) => (label === "off" ? '"off"' : label);
      return {
        from: line.from + value[1]!.length,
        options: values.map((label) => ({ label, apply: quoted(label), type: "enum" })),
        validFor: /^\S*$/,
      };
    }
    if (!key || (!context.explicit && key[2] === "")) return null;
    lines[at] = before;
    const schema = schemaAt(panel, placeOf(lines, at));
    const fields = Object.entries(schema?.fields ?? {});
    const options = [
      ...fields.map(([label, of]) => ({
        label,
        ...(of.info ? { info: of.info } : {}),
        apply: label + (of.fields || of.items || of.$ref || of.keys ? ":" : ": "),
        type: "property",
      })),
      ...(schema?.keys ?? []).map((label) => ({ label, apply: `${label}: `, type: "property" })),
    ];
    return options.length > 0 ? { from: line.from + key[1]!.length, options, validFor: /^[^\s:]*$/ } : null;
  };
  return autocompletion({ override: [source], icons: false });
}

/** What a field is for, and how much a quantity is. */
function hover(panel: Panel): Extension {
  return hoverTooltip((view, position) => {
    const { doc } = view.state;
    const line = doc.lineAt(position);
    for (const match of line.text.matchAll(/[^\s:,{}[\]"']+/g)) {
      const [from, to] = [line.from + match.index, line.from + match.index + match[0].length];
      if (position < from || position > to) continue;
      const told = /^\s*["']?:/.test(line.text.slice(to - line.from))
        ? fieldAt(panel, view.state, line.number, match[0])
        : amountOf(match[0]);
      if (!told) return null;
      const dom = document.createElement("div");
      dom.className = "hover";
      dom.textContent = told;
      return { pos: from, end: to, above: true, create: () => ({ dom }) };
    }
    return null;
  });
}

function fieldAt(panel: Panel, state: EditorState, number: number, field: string): string | undefined {
  const first = Math.max(1, number - 2_000);
  const lines: string[] = [];
  for (let at = first; at <= number; at++) lines.push(state.doc.line(at).text);
  const fields = schemaAt(panel, placeOf(lines, number - first))?.fields;
  const info = fields?.[field]?.info;
  return info && `${field}: ${info}`;
}

/** `1536Mi` as `1.5 GiB = 1,610,612,736`, `750m` as `0.75`. */
function amountOf(text: string): string | undefined {
  const value = /^[0-9.]+([numkMGTPE]|[KMGTPE]i)$/.test(text) ? thousandths(text) : undefined;
  if (value === undefined) return undefined;
  const whole = (value / 1000).toLocaleString("en", { maximumFractionDigits: 9 });
  return /i$/.test(text) ? `${text} = ${amount("memory", value)} = ${whole} bytes` : `${text} = ${whole}`;
}

/** Colors are the page's, for light and dark alike. */
const colors = HighlightStyle.define([
  { tag: [tags.definition(tags.propertyName), tags.propertyName], color: "var(--key)" },
  { tag: [tags.string, tags.content], color: "var(--text)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--number)" },
  { tag: tags.comment, color: "var(--muted)", fontStyle: "italic" },
  { tag: [tags.separator, tags.punctuation, tags.meta], color: "var(--muted)" },
]);

const theme = EditorView.theme({
  "&": { height: "100%", color: "var(--text)", backgroundColor: "var(--sheet)", fontSize: "var(--small)" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.5" },
  ".cm-content": { caretColor: "var(--text)" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  ".cm-gutters": { backgroundColor: "var(--sheet)", color: "var(--muted)", borderRight: "1px solid var(--line)" },
  ".cm-activeLine": { backgroundColor: "var(--active)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": {
    backgroundColor: "var(--selection)",
  },
  ".cm-tooltip": {
    backgroundColor: "var(--raised)",
    color: "var(--text)",
    border: "1px solid var(--line)",
    borderRadius: "var(--radius)",
    overflow: "hidden",
    maxWidth: "30rem",
    boxShadow: "0 4px 16px #00000033",
  },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { backgroundColor: "var(--accent)", color: "var(--on-accent)" },
  ".cm-completionInfo, .hover": { padding: "4px 8px", fontSize: "var(--small)" },
  ".cm-placeholder": { color: "var(--muted)" },
  ".cm-lint-marker": {
    content: "''",
    boxSizing: "border-box",
    width: "10px",
    height: "10px",
    margin: "5px 2px",
    borderRadius: "5px",
  },
  ".cm-lint-marker-error": { background: "var(--bad-fill)" },
  ".cm-lint-marker-warning": {
    background: "var(--warn-fill)",
    borderRadius: "2px",
    transform: "rotate(45deg) scale(0.8)",
  },
  ".cm-lintRange-error, .cm-lintRange-warning": {
    backgroundImage: "none",
    paddingBottom: "0",
    textDecoration: "underline wavy 1px",
    textUnderlineOffset: "3px",
  },
  ".cm-lintRange-error": { textDecorationColor: "var(--bad-fill)" },
  ".cm-lintRange-warning": { textDecorationColor: "var(--warn-fill)" },
  ".cm-diagnostic": { padding: "8px 12px", fontFamily: "var(--sans)", fontSize: "var(--small)" },
  ".cm-diagnosticAction": {
    backgroundColor: "var(--accent)",
    color: "var(--on-accent)",
    borderRadius: "var(--radius)",
    padding: "2px 8px",
    cursor: "pointer",
    font: "inherit",
    fontWeight: "600",
  },
});

const extensions: Extension = [
  lineNumbers(),
  history(),
  drawSelection(),
  indentOnInput(),
  indentUnit.of("  "),
  bracketMatching(),
  closeBrackets(),
  highlightActiveLine(),
  lintGutter(),
  yaml(),
  syntaxHighlighting(colors),
  theme,
  EditorView.lineWrapping,
  keymap.of([...closeBracketsKeymap, ...defaultKeymap, ...historyKeymap, ...completionKeymap, ...lintKeymap]),
];

// Where a container's field stands in a manifest, block or flow style alike, for marks and quick fixes.

import { yamlLanguage } from "@codemirror/lang-yaml";
import type { SyntaxNode } from "@lezer/common";

/** A part of a text, in characters. */
export interface Span {
  from: number;
  to: number;
}

const MAPPINGS = ["BlockMapping", "FlowMapping"];
const SEQUENCES = ["BlockSequence", "FlowSequence"];

/** Finds values in the document that begins at a line, from 1. */
export class Located {
  #root: SyntaxNode | undefined;

  constructor(
    private readonly text: string,
    line: number,
  ) {
    let from = 0;
    for (let at = 1; at < line; at++) from = text.indexOf("\n", from) + 1;
    const stream = yamlLanguage.parser.parse(text).topNode;
    for (let document = stream.firstChild; document; document = document.nextSibling) {
      if (document.name === "Document" && document.to > from) {
        this.#root = document;
        break;
      }
    }
  }

  /** The object's own name. */
  object(): Span | undefined {
    const root = this.#root && this.#child(this.#root, MAPPINGS);
    const metadata = root && this.#entry(root, "metadata");
    const name = metadata && this.#entry(metadata, "name");
    return name && { from: name.from, to: name.to };
  }

  /** The value of a container's `limits.memory`. */
  resource(container: string, field: string): Span | undefined {
    const found = this.#root && this.#container(this.#root, container);
    let node: SyntaxNode | undefined = found;
    for (const step of ["resources", ...splitField(field)]) node = node && this.#entry(node, step);
    return node && { from: node.from, to: node.to };
  }

  /** The name of a container. */
  name(container: string): Span | undefined {
    const found = this.#root && this.#container(this.#root, container);
    const name = found && this.#entry(found, "name");
    return name && { from: name.from, to: name.to };
  }

  #container(node: SyntaxNode, name: string): SyntaxNode | undefined {
    for (let child = node.firstChild; child; child = child.nextSibling) {
      if (child.name === "Pair" && /^(initC|c|ephemeralC)ontainers$/.test(this.#key(child))) {
        const list = this.#value(child);
        for (let item = list && SEQUENCES.includes(list.name) ? list.firstChild : null; item; item = item.nextSibling) {
          const mapping = MAPPINGS.includes(item.name) ? item : this.#child(item, MAPPINGS);
          const named = mapping && this.#entry(mapping, "name");
          if (mapping && named && unquoted(this.#of(named)) === name) return mapping;
        }
      }
      const found = this.#container(child, name);
      if (found) return found;
    }
    return undefined;
  }

  #entry(mapping: SyntaxNode, key: string): SyntaxNode | undefined {
    for (let pair = mapping.firstChild; pair; pair = pair.nextSibling) {
      if (pair.name === "Pair" && this.#key(pair) === key) return this.#value(pair);
    }
    return undefined;
  }

  #key = (pair: SyntaxNode): string => (pair.firstChild ? unquoted(this.#of(pair.firstChild)) : "");
  #of = (node: SyntaxNode): string => this.text.slice(node.from, node.to);

  #value(pair: SyntaxNode): SyntaxNode | undefined {
    const last = pair.lastChild;
    return last && last.name !== "Key" && last.name !== ":" ? last : undefined;
  }

  #child(node: SyntaxNode, names: string[]): SyntaxNode | undefined {
    for (let child = node.firstChild; child; child = child.nextSibling) if (names.includes(child.name)) return child;
    return undefined;
  }
}

const unquoted = (text: string) => text.trim().replace(/^(["'])(.*)\1$/, "$2");

/** `limits.example.com/gpu` as two steps. */
function splitField(field: string): [string, string] {
  const dot = field.indexOf(".");
  return [field.slice(0, dot), field.slice(dot + 1)];
}

// Elements made of data. Text is always set as text, never as HTML, so no input can become markup.

type Child = Node | string | null | undefined | false;
type Attributes = Record<string, string | number | boolean | ((event: Event) => void)>;

export function h<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[Tag] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false) element.setAttribute(name, String(value));
  }
  for (const child of children) if (child) element.append(child);
  return element;
}

/** An element that the page's HTML has. */
export function byId<Kind extends HTMLElement>(id: string, kind: new () => Kind): Kind {
  const found = document.getElementById(id);
  if (!(found instanceof kind)) throw new Error(`the page has no #${id}`);
  return found;
}

/** The element for a key; it is made where there was none for the key before. */
export type Keep = (key: unknown, make: () => Node | null) => Node | null;

/**
 * The children of an element. A child that is shown again stays in the page, unfolded and scrolled as it is. If the focused
 * button is made anew, the new one has the focus: buttons are told apart by `data-focus`.
 */
export class Shown {
  #kept = new Map<string, Node | null>();

  constructor(private readonly parent: HTMLElement) {}

  show(children: (keep: Keep) => (Node | null)[]) {
    const focused = document.activeElement;
    const kept = new Map<string, Node | null>();
    const keep: Keep = (key, make) => {
      const text = JSON.stringify(key);
      const element = this.#kept.get(text) ?? make();
      kept.set(text, element);
      return element;
    };
    const wanted = new Set(children(keep).filter((child) => child !== null));
    this.#kept = kept;
    for (const child of [...this.parent.childNodes]) if (!wanted.has(child)) child.remove();
    let at = this.parent.firstChild;
    for (const child of wanted) {
      if (child === at) at = child.nextSibling;
      else this.parent.insertBefore(child, at);
    }
    if (!(focused instanceof HTMLButtonElement) || focused.isConnected || !focused.dataset.focus) return;
    const again = this.parent.querySelector<HTMLButtonElement>(`[data-focus="${focused.dataset.focus}"]`);
    (again?.disabled ? again.parentElement : again)?.focus();
  }
}

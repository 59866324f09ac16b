// A link to a view of the page.

import type { ComponentChildren } from "preact";
import { show } from "../navigation.js";

export function To({ hash, children }: { hash: string; children: ComponentChildren }) {
  const go = (event: Event) => {
    event.preventDefault();
    show(hash);
  };
  return (
    <a href={hash} onClick={go}>
      {children}
    </a>
  );
}

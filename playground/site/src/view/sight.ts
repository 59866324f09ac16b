// The part of a long list that is in sight: in a box that scrolls by itself, or on a phone in the window.

import type { RefObject } from "preact";
import { useEffect, useLayoutEffect, useState } from "preact/hooks";

/** So many pixels beyond what is in sight are drawn. */
export const AHEAD = 600;

export function useSight(box: RefObject<HTMLElement | null>) {
  const [sight, setSight] = useState({ top: 0, height: 900 });
  const isOfWindow = () => getComputedStyle(box.current!).overflowY === "visible";
  const measured = () => {
    const { scrollTop, clientHeight } = box.current!;
    if (!isOfWindow()) return { top: scrollTop, height: clientHeight };
    return { top: Math.max(0, -box.current!.getBoundingClientRect().top), height: innerHeight };
  };
  const look = () => {
    if (!box.current) return;
    const now = measured();
    if (Math.abs(now.top - sight.top) > AHEAD / 3 || now.height !== sight.height) setSight(now);
  };
  const scrollTo = (top: number) => {
    if (isOfWindow()) window.scrollBy(0, top + box.current!.getBoundingClientRect().top);
    else box.current!.scrollTop = top;
    look();
  };
  useLayoutEffect(look);
  useEffect(() => {
    window.addEventListener("scroll", look, { passive: true });
    return () => window.removeEventListener("scroll", look);
  });
  return { sight, measured, look, scrollTo, again: () => setSight((sight) => ({ ...sight })) };
}

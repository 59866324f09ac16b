// Amounts as people read them: cores, MiB and GiB, one unit in a column. Exact quantities stay in manifests and in what
// Kubernetes itself says. All values are in thousandths, as the engine and the snapshot have them.

const KIB = 1024;
const SUFFIXES: Record<string, number> = { n: 1e-9, u: 1e-6, m: 1e-3, "": 1, k: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15, E: 1e18, Ki: KIB, Mi: KIB ** 2, Gi: KIB ** 3, Ti: KIB ** 4, Pi: KIB ** 5, Ei: KIB ** 6 };

/** A quantity in thousandths, to be drawn and compared; undefined for a text that is none. */
export function thousandths(quantity: unknown): number | undefined {
  const match = /^([+-]?\d*\.?\d+|\d+\.)(?:([eE][+-]?\d+)|([numkMGTPE]|[KMGTPE]i)?)$/.exec(String(quantity));
  if (!match) return undefined;
  const value = match[2] ? Number(match[1] + match[2]) : Number(match[1]) * SUFFIXES[match[3] ?? ""]!;
  return Number.isFinite(value) ? value * 1000 : undefined;
}

const rounded = (value: number, decimals: number) => value.toLocaleString("en", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });

/** `24.4`, `2`, `0.60`, `0.005` */
export function cores(value: number): string {
  const amount = value / 1000;
  const size = Math.abs(amount);
  return rounded(amount, Number.isInteger(amount) || size >= 100 ? 0 : size >= 10 ? 1 : size >= 0.1 ? 2 : 3);
}

/** `45.7 GiB`, `534 MiB` */
export function bytes(value: number): string {
  const amount = value / 1000;
  const size = Math.abs(amount);
  if (size >= KIB ** 4) return `${rounded(amount / KIB ** 4, 1)} TiB`;
  const [gibibytes, mebibytes] = [amount / KIB ** 3, amount / KIB ** 2];
  if (size >= KIB ** 3) return `${rounded(gibibytes, Number.isInteger(gibibytes) || size >= 100 * KIB ** 3 ? 0 : 1)} GiB`;
  return `${rounded(mebibytes, Number.isInteger(mebibytes) || size >= 100 * KIB ** 2 ? 0 : 1)} MiB`;
}

/** An amount of a resource by the resource's name: `cpu`, `requests.memory`, `pods`. */
export function amount(resource: string, value: number): string {
  const name = resource.replace(/^(requests|limits)\./, "");
  if (name === "cpu") return cores(value);
  if (/memory|storage|hugepages/.test(name)) return bytes(value);
  return rounded(value / 1000, Number.isInteger(value / 1000) ? 0 : 1);
}

/** `cores` behind amounts of CPU, where no column says it. */
export const withUnit = (resource: string, value: number): string => amount(resource, value) + (/cpu$/.test(resource) ? (value === 1000 ? " core" : " cores") : "");

/** `81%`; from ten times on `20 ×`. */
export function share(part: number, whole: number): string {
  if (whole <= 0) return part > 0 ? "full" : "";
  const percent = (part / whole) * 100;
  return percent >= 1000 ? `${Math.floor(percent / 100)} ×` : `${Math.floor(percent)}%`;
}

/** When a quota is full if its usage goes on to grow as it did: `full in 12 days`. */
export function forecast({ used, hard, perDay }: { used: number; hard: number; perDay?: number }): string {
  if (used >= hard) return used > 0 ? "full now" : "";
  if (perDay === undefined) return "no trend yet";
  const days = (hard - used) / perDay;
  if (!(perDay > 0) || days > 180) return perDay < 0 ? "shrinking" : "steady";
  return days < 1.5 ? "full within a day" : `full in ${Math.round(days)} days`;
}

/** `1 pod`, `2 pods` */
export const count = (number: number, noun: string): string => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;

/** `88 of 160 GiB`: a unit that both share stands once. */
export function ofHard(resource: string, used: number, hard: number): string {
  const [some, all] = [amount(resource, used), amount(resource, hard)];
  const unit = / \w+$/.exec(all)?.[0];
  return `${unit && some.endsWith(unit) ? some.slice(0, -unit.length) : some} of ${all}`;
}

// A cluster as `kubectl headroom ui` serves it: a small one that reads like a real one, or one of any size. With teams that have
// workloads of all sorts, quotas, and what is at risk.

const MIB = 1024 ** 2;
const cpu = (milli) => ({ text: milli % 1000 ? `${milli}m` : String(milli / 1000), value: milli });
const memory = (mebibytes) => ({
  text: mebibytes % 1024 ? `${mebibytes}Mi` : `${mebibytes / 1024}Gi`,
  value: mebibytes * MIB * 1000,
});

/** Namespace, kind, name, container, pods; request, limit, p50, p95 and peak of CPU and of memory; days; flags. */
const SMALL = [
  [
    "payments",
    "Deployment",
    "gateway",
    "gateway",
    6,
    [2000, 4000, 380, 530, 910],
    [1024, 1024, 300, 360, 465],
    14,
    ["hpa"],
  ],
  [
    "payments",
    "Deployment",
    "fraud-scoring-service-with-a-long-name",
    "scorer",
    5,
    [2000, 0, 310, 450, 820],
    [3072, 4096, 640, 720, 781],
    14,
    ["hpa"],
  ],
  [
    "payments",
    "StatefulSet",
    "ledger",
    "postgres",
    3,
    [4000, 0, 900, 1600, 2900],
    [8192, 8192, 5200, 5600, 5900],
    14,
    ["pods differ"],
  ],
  ["payments", "CronJob", "settlement", "main", 1, [500, 0, 120, 300, 480], [512, 1024, 200, 260, 300], 9, ["nightly"]],
  ["shop", "Deployment", "web", "nginx", 6, [1000, 1000, 110, 160, 250], [1024, 2048, 250, 290, 325], 14, []],
  [
    "shop",
    "Deployment",
    "catalog",
    "app",
    3,
    [500, 500, 430, 498, 500],
    [1024, 1024, 820, 1000, 1024],
    14,
    ["oom 3", "throttled 31%"],
  ],
  [
    "shop",
    "Deployment",
    "checkout",
    "app",
    4,
    [750, 750, 340, 610, 750],
    [768, 1024, 310, 350, 402],
    14,
    ["throttled 12%"],
  ],
  ["shop", "Deployment", "images", "resizer", 2, [0, 0, 80, 140, 610], [0, 0, 150, 190, 240], 3, []],
  ["search", "Deployment", "query", "app", 5, [1000, 0, 150, 210, 300], [2048, 2048, 330, 380, 435], 14, []],
  ["search", "Deployment", "ingest", "worker", 7, [1250, 0, 270, 380, 600], [2560, 4096, 560, 610, 667], 14, []],
  [
    "search",
    "StatefulSet",
    "index",
    "opensearch",
    3,
    [2000, 0, 700, 1300, 1900],
    [12288, 12288, 9800, 10100, 10200],
    14,
    [],
  ],
  ["search", "Deployment", "suggest", "app", 2, [250, 0], [512, 0], 0, []],
  ["ml", "Deployment", "trainer", "main", 2, [8000, 0, 3100, 5200, 6900], [32768, 32768, 12800, 14100, 14600], 12, []],
  ["ml", "Deployment", "notebook-hub", "hub", 1, [1000, 0, 90, 160, 420], [1024, 2048, 280, 310, 346], 14, ["weekly"]],
  [
    "ml",
    "StatefulSet",
    "features",
    "redis",
    3,
    [500, 0, 100, 160, 210],
    [2048, 2048, 1700, 1740, 1760],
    14,
    ["memory grows 24Mi a day"],
  ],
  [
    "platform",
    "StatefulSet",
    "kafka",
    "broker",
    3,
    [1000, 0, 820, 1210, 1700],
    [2048, 2048, 1800, 2010, 2048],
    14,
    ["oom 3"],
  ],
  [
    "platform",
    "DaemonSet",
    "logs",
    "agent",
    12,
    [200, 0, 40, 80, 160],
    [256, 256, 120, 140, 166],
    14,
    ["last seen 10 d ago"],
  ],
  [
    "platform",
    "Deployment",
    "prometheus",
    "prometheus",
    1,
    [2000, 0, 800, 1200, 1500],
    [16384, 0, 9100, 9900, 10200],
    14,
    [],
  ],
];

/** A workload's patches, as the engine words them. */
function wholeOf({ namespace, object, name, kind, container }, lines) {
  const changed = (lines.get(`${namespace}/${object}`) ?? []).filter(({ recommended }) => recommended);
  const text = `kind: ${kind}\nmetadata:\n  name: ${name}\n# ${container}: ${changed.map(({ resource, recommended }) => `${resource} ${recommended.text}`).join(", ")}\n`;
  const patch = (of, text) => ({
    object: of,
    type: "strategic",
    text,
    command: `kubectl --context prod-eu patch ${of} --namespace ${namespace} --type strategic --patch '{}'`,
  });
  const isScaled = object === "deployment/gateway";
  const blocked =
    object === "deployment/trainer" ? { blocked: "2 pods of it exceed quota team by 1.2 cores; 4800m fits" } : {};
  const patches = blocked.blocked
    ? []
    : [
        patch(object, text),
        ...(isScaled ? [patch("horizontalpodautoscaler/gateway", "kind: HorizontalPodAutoscaler\n")] : []),
      ];
  return {
    namespace,
    object,
    qosClass: "Burstable",
    qosClassAfter: "Burstable",
    autoscalers: isScaled ? ["its CPU target is set to 235%, or expect 6 to 20 Pods"] : [],
    patches,
    ...blocked,
  };
}

/** What all recommendations do to one quota. */
const EFFECTS = [
  {
    namespace: "team-003",
    quota: "team",
    resource: "requests.cpu",
    used: "19200m",
    change: "-12200m",
    usedAfter: "7",
    hard: "20",
    fits: true,
  },
];

const CHANGES = [{ id: "shop/deployment/web/nginx", isAsRecommended: true }];

/** What `headroom-controller resize` did: one of each. */
const resizes = () => ({
  changes: [
    {
      workload: "search/Deployment/query",
      raised: 0,
      lowered: 5,
      quiet: 4,
      last: minutes(190),
      what: "app: cpu request 1 -> 670m, memory request 2Gi -> 1373Mi",
      why: "it would be admitted so today",
    },
    {
      workload: "shop/Deployment/catalog",
      raised: 1,
      lowered: 0,
      quiet: 1,
      last: minutes(44),
      what: "app: memory limit 1Gi -> 1229Mi",
      why: "it was killed for memory",
    },
  ],
  underWay: [
    {
      workload: "search/Deployment/ingest",
      pod: "ingest-7c9f6d5b48-x2v9q",
      change: "worker: cpu request 1250m -> 838m, memory request 2560Mi -> 1716Mi",
      why: "it would be admitted so today",
      state: `watched since ${minutes(4)}`,
    },
  ],
  leftAlone: [
    {
      workload: "payments/Deployment/gateway",
      container: "gateway",
      what: "not lowered",
      until: minutes(-1_300),
      why: "a container is throttled or waits for CPU more than before",
      isTakenBack: true,
    },
  ],
  notDone: [
    {
      namespace: "shop",
      object: "deployment/web",
      reason: "WouldResize",
      time: minutes(9),
      what: "pod web-6d4b9c6f5-bcdf4: would resize nginx (cpu request 1 -> 670m, memory request 1Gi -> 687Mi): it would be admitted so today (and 5 other pods)",
    },
  ],
});

/** The row of a large cluster. */
function row(index, teams) {
  const [request, p50] = [250 * (1 + ((index * 3) % 8)), 60 + ((index * 53) % 400)];
  const [requested, used] = [512 * (1 + (index % 6)), 180 + ((index * 97) % 900)];
  const flags = [
    ...(index % 9 === 1 ? ["oom 3"] : []),
    ...(index % 9 === 4 ? ["throttled 31%"] : []),
    ...(index % 5 === 0 ? ["hpa"] : []),
  ];
  const usage =
    index % 11 === 10
      ? [[], []]
      : [
          [p50, Math.round(p50 * 1.4), Math.round(p50 * 2.2)],
          [used, Math.round(used * 1.1), Math.round(used * 1.25)],
        ];
  const kind = index % 6 === 2 ? "StatefulSet" : "Deployment";
  const name = `app-${String(index).padStart(5, "0")}`;
  return [
    teams[index % teams.length],
    kind,
    name,
    "main",
    1 + ((index * 5) % 7),
    [request, index % 2 ? request * 2 : 0, ...usage[0]],
    [requested, requested * 2, ...usage[1]],
    3 + (index % 12),
    flags,
  ];
}

/** How usage ran over so many steps of a day or an hour, with what its flags say. */
export function courseOf(ofCpu, ofMemory, flags, { steps = 14, step = 86_400 } = {}) {
  const to = Math.ceil(Date.now() / 1000 / step) * step;
  const from = to - steps * step;
  const has = (start) => flags.some((flag) => flag.startsWith(start));
  const peaks = ([, , p50, p95, peak], unit, isCpu) =>
    Array.from({ length: steps }, (_, index) => {
      const [day, hour] = [Math.floor((from + index * step) / 86_400), ((from + index * step) % 86_400) / 3_600];
      if (has("last seen") && index * step > 4 * 86_400) return null;
      const wave = Math.abs(Math.sin(index * 12.9898) * 43758.5453) % 1;
      if (isCpu && has("nightly"))
        return Math.round((step < 86_400 && (hour < 2 || hour > 3) ? p50 * 0.3 : peak) * unit);
      if (isCpu && has("weekly")) return Math.round((day % 7 === 2 ? peak : p50 * (0.8 + wave / 3)) * unit);
      if (!isCpu && has("memory grows")) return Math.round(peak * (0.6 + (0.4 * index) / steps) * unit);
      return Math.round((p50 + (peak - p50) * wave ** 2 * (index % 9 === 4 ? 1 : 0.7) + (p95 - p50) * 0.2) * unit);
    });
  return {
    from,
    step,
    cpu: peaks(ofCpu, 1, true),
    memory: peaks(ofMemory, 1024, false),
    kills: has("oom") ? [Date.now() / 1000 - 5 * 3_600, to - 5.1 * 86_400] : [],
    releases: has("hpa") ? [to - 6 * 86_400] : [],
  };
}

const minutes = (ago) => new Date(Date.now() - ago * 60_000).toISOString().replace(/\.\d+/, "");

/** What was rejected lately: a Deployment that is blocked now, and what only Events tell of. */
function rejectionsOf(hostile) {
  const row = (namespace, workloads, workloadCount, blocked, message, count, first, last) => ({
    namespace: hostile ?? namespace,
    workloads: workloads.map((name) => hostile ?? name),
    workloadCount,
    blocked,
    message: hostile ?? message,
    count,
    first: minutes(first),
    last: minutes(last),
  });
  return [
    row(
      "ml",
      ["deployment/trainer"],
      1,
      1,
      "exceeded quota: team, requested: requests.cpu=8, used: requests.cpu=19200m, limited: requests.cpu=20",
      17,
      42,
      3,
    ),
    row(
      "payments",
      ["cronjob/settlement", "statefulset/ledger", "deployment/gateway", "job/backfill", "job/import"],
      7,
      0,
      "maximum memory usage per Container is 8Gi, but limit is 16Gi",
      21,
      55,
      12,
    ),
    row(
      "shop",
      ["deployment/images"],
      1,
      0,
      'admission webhook "validate.example" denied the request: image registry.example/resizer:latest has no signature',
      4,
      31,
      29,
    ),
  ];
}

/** Names that run where they are taken for HTML, for an address or for an object's own keys. */
export const HOSTILE = [
  "<img src=x onerror=RUN>",
  "<script>RUN</script>",
  "</script><script>RUN</script>",
  "<svg onload=RUN>",
  "<svg><script>RUN</script></svg>",
  '"><img src=x onerror=RUN>',
  "' onmouseover=RUN autofocus onfocus=RUN x='",
  "--><img src=x onerror=RUN>",
  "]]><img src=x onerror=RUN>",
  "</title></style></textarea></noscript><img src=x onerror=RUN>",
  "&lt;img src=x onerror=RUN&gt;",
  "&#60;img src=x onerror=RUN&#62;",
  "<iframe srcdoc='<script>parent.RUN</script>'></iframe>",
  "<a href='javascript:RUN'>",
  "javascript:RUN",
  "<details open ontoggle=RUN>",
  "<video><source onerror=RUN></video>",
  "<math><mtext><table><mglyph><style><img src=x onerror=RUN>",
  "<base href='https://example.com/'><meta http-equiv=refresh content='0;javascript:RUN'>",
  "{{RUN}}`RUN`",
  "__proto__",
  "\u202e<img src=x onerror=RUN>",
].map((text) => text.replaceAll("RUN", "document.title='run'"));

const payload = (number) => HOSTILE[number % HOSTILE.length];

/** Elements that such names would make. */
export const MADE = "img, script, iframe, video, base, meta, math, details[ontoggle], a[href^=javascript], [onfocus]";

/** The text of `cluster.json` with so many workloads; 18 of them are those above. */
export function cluster(count = SMALL.length, { hostile, rejected } = {}) {
  const teams =
    count > SMALL.length
      ? Array.from({ length: Math.ceil(count / 100) }, (_, index) => `team-${String(index).padStart(3, "0")}`)
      : [...new Set(SMALL.map(([team]) => team))];
  const rows = (
    count > SMALL.length ? Array.from({ length: count }, (_, index) => row(index, teams)) : SMALL.slice(0, count)
  ).map((row, at) => (hostile ? row.with(2, payload(at)).with(3, payload(at + count)) : row));
  const items = teams.map((name) => ({ apiVersion: "v1", kind: "Namespace", metadata: { name } }));
  const lines = [];
  const risks = [];
  const sums = { cpu: [0, 0], memory: [0, 0] };
  for (const [namespace, kind, name, container, pods, ofCpu, ofMemory, days, flags] of rows) {
    const isMeasured = ofCpu.length > 2;
    // Nothing is recommended from what was used days ago.
    const silent = flags.find((flag) => flag.startsWith("last seen"));
    const isAdvised = isMeasured && !silent;
    const common = {
      namespace,
      object: `${kind.toLowerCase()}/${name}`,
      pods,
      container,
      evidence: isMeasured ? `${days}d, ${pods} ${pods === 1 ? "pod" : "pods"}` : null,
      flags,
      typical: null,
    };
    const isKilled = flags.some((flag) => flag.startsWith("oom"));
    const line = (resource, amount, [request, limit, p50, p95, peak], recommended, reason) => {
      const recommendedLimit = resource === "memory" && isKilled ? amount(Math.round(limit * 1.2)) : null;
      const usage = isMeasured
        ? Object.entries({ p50, p95, peak }).map(([at, value]) => ({ at, ...amount(value) }))
        : [];
      const course = resource === "cpu" && isMeasured ? courseOf(ofCpu, ofMemory, flags) : undefined;
      const perCore = (request, then, price, whole) => ((request - then) * pods * price) / whole;
      const savedAMonth =
        isAdvised && resource === "cpu"
          ? {
              savedAMonth: (
                perCore(ofCpu[0], recommended, 23, 1000) + perCore(ofMemory[0], Math.round(ofMemory[4] * 1.15), 3, 1024)
              ).toFixed(2),
            }
          : {};
      lines.push({
        ...common,
        ...(course ? { course } : {}),
        ...savedAMonth,
        resource,
        request: request ? amount(request) : null,
        limit: limit ? amount(limit) : null,
        recommended: isAdvised ? amount(recommended) : null,
        recommendedLimit,
        saved: isAdvised ? amount((request || 0) - recommended).value * pods : undefined,
        change: isAdvised ? amount(recommended - request).text : "-",
        usage,
        source: isAdvised
          ? reason
          : silent
            ? `no recommendation: its usage was ${silent}, but it runs`
            : "no usage data",
      });
      if (!isAdvised) return;
      sums[resource][0] += request * pods;
      sums[resource][1] += recommended * pods;
    };
    const of = `of 7d ${name}:1.25 in this namespace, 10080 samples`;
    const [, cpuLimit, , p95] = ofCpu;
    const [, memoryLimit, , , peak] = ofMemory;
    line("cpu", cpu, ofCpu, Math.min(Math.round(p95 * 1.15), cpuLimit || Infinity), `p95 ${of}; ${p95}m + 15%`);
    line("memory", memory, ofMemory, Math.round(peak * 1.15), `peak ${of}; ${peak}Mi + 15%`);
    const risk = (risk, text, fix) => risks.push({ namespace, kind, name, container, risk, text, fix });
    for (const flag of flags) {
      if (flag.startsWith("oom"))
        risk(
          "oomKilled",
          `OOM-killed ${flag.slice(4)} times at ${memory(memoryLimit).text}`,
          `raise the memory limit to ${memory(Math.round(memoryLimit * 1.2)).text}`,
        );
      if (flag.startsWith("throttled"))
        risk(
          "throttled",
          `throttled in ${flag.slice(10)} of its CPU periods`,
          cpuLimit ? "raise or remove the CPU limit" : "",
        );
    }
    if (!ofCpu[0])
      risk(
        "noRequest",
        "no cpu or memory request",
        `request cpu ${cpu(Math.round(p95 * 1.15)).text}, memory ${memory(Math.round(peak * 1.15)).text}`,
      );
    const requests = ofCpu[0] ? { cpu: cpu(ofCpu[0]).text, memory: memory(ofMemory[0]).text } : {};
    const template = {
      metadata: { labels: { app: name } },
      spec: {
        containers: [
          { name: container, image: `${count > SMALL.length ? "example" : name}:1.25`, resources: { requests } },
        ],
      },
    };
    const spec =
      kind === "CronJob"
        ? { schedule: "0 3 * * *", jobTemplate: { spec: { template } } }
        : { replicas: pods, selector: { matchLabels: { app: name } }, template };
    items.push({ apiVersion: kind === "CronJob" ? "batch/v1" : "apps/v1", kind, metadata: { name, namespace }, spec });
  }
  for (const [index, namespace] of teams.slice(0, 100).entries()) {
    const quota = (hard, used) =>
      items.push({
        apiVersion: "v1",
        kind: "ResourceQuota",
        metadata: { name: hostile ?? "team", namespace },
        spec: { hard },
        status: { hard, used },
      });
    quota(
      { "requests.cpu": "20", "requests.memory": "40Gi", pods: "30" },
      {
        "requests.cpu": `${(16.2 + (index % 4)).toFixed(1)}`,
        "requests.memory": `${20 + 4 * (index % 5)}Gi`,
        pods: String(8 + index),
      },
    );
    // A long name, which has to break on a phone.
    if (namespace === "platform")
      items.push({
        apiVersion: "v1",
        kind: "ResourceQuota",
        metadata: { name: "storage", namespace },
        spec: {},
        status: {
          hard: { "fast.storageclass.storage.k8s.io/requests.storage": "1Ti" },
          used: { "fast.storageclass.storage.k8s.io/requests.storage": "980Gi" },
        },
      });
    items.push({
      apiVersion: "v1",
      kind: "LimitRange",
      metadata: { name: "limits", namespace },
      spec: { limits: [{ type: "Container", default: { memory: "512Mi" }, max: { memory: "32Gi" } }] },
    });
  }
  const hard = { "requests.cpu": "60", "requests.memory": "160Gi" };
  items.push({
    apiVersion: "headroom.dev/v1alpha1",
    kind: "TenantQuota",
    metadata: { name: hostile ?? "commerce" },
    spec: { quota: { hard } },
    status: {
      hard,
      used: { "requests.cpu": "51", "requests.memory": "88Gi" },
      namespaces: teams.slice(0, 2).map((name) => ({ name, used: {} })),
    },
  });
  const sum = ([requested, recommended], amount) => ({
    requested: amount(requested).text,
    recommended: amount(recommended).text,
    saved: amount(requested - recommended).text,
  });
  // The first teams have a trend; the others are too young for one.
  const trends = teams.slice(0, 3).map((namespace, index) => ({
    namespace,
    quota: hostile ?? "team",
    resource: "requests.cpu",
    perDay: [120, -40, 900][index],
  }));
  trends.push({ namespace: "", quota: hostile ?? "commerce", resource: "requests.cpu", perDay: 300 });
  const [withoutAdvice, withoutUsage] = ["recommended", "evidence"].map(
    (field) => lines.filter((line) => line[field] === null).length / 2,
  );
  const money = ((sums.cpu[0] - sums.cpu[1]) / 1000) * 23 + ((sums.memory[0] - sums.memory[1]) / 1024) * 3;
  const total = {
    workloads: rows.length,
    containers: rows.length,
    withoutAdvice,
    withoutUsage,
    savedAMonth: money.toFixed(2),
    currency: "$",
    cpu: sum(sums.cpu, cpu),
    memory: sum(sums.memory, memory),
  };
  const byObject = new Map();
  for (const line of lines)
    byObject.set(`${line.namespace}/${line.object}`, [
      ...(byObject.get(`${line.namespace}/${line.object}`) ?? []),
      line,
    ]);
  const workloads = rows
    .map(([namespace, kind, name, container]) => ({
      namespace,
      object: `${kind.toLowerCase()}/${name}`,
      name,
      kind,
      container,
    }))
    .map((of) => wholeOf(of, byObject));
  const advice = {
    workloads,
    headline: "",
    source: "Usage from Prometheus, 9 to 23 November 2026",
    total,
    money: `Per month at $23.00 a core, $3.00 a GiB: $2,731 requested now; $1,311 freed, $44 added, ${money < 0 ? "-" : ""}$${Math.abs(Math.round(money)).toLocaleString("en")} net. Freed requests save money once nodes are removed`,
    risks,
    lines,
    quotas: EFFECTS,
    notes: [`HorizontalPodAutoscaler ${hostile ?? "gateway"}: set its CPU target to 235% or expect 6 to 20 Pods`],
  };
  const rejections = { groups: rejected ?? rejectionsOf(hostile), isCut: false, problem: null };
  items.push({
    apiVersion: "headroom.dev/v1alpha1",
    kind: "Snapshot",
    metadata: { name: "snapshot" },
    spec: {
      cluster: hostile ?? "prod-eu",
      changes: hostile ? [] : CHANGES,
      settings: { estimates: { mode: "never" } },
      advice,
      trends,
      rejections,
      ...(hostile ? {} : { resizes: resizes() }),
    },
  });
  return JSON.stringify({ apiVersion: "v1", kind: "List", metadata: {}, items });
}

/** The same cluster where no usage is known, for this reason; for none because its source has no samples. */
export function unmeasured(problem) {
  const list = JSON.parse(cluster());
  const { spec } = list.items.at(-1);
  for (const line of spec.advice.lines) {
    for (const name of ["course", "saved", "savedAMonth", "evidence", "recommended", "recommendedLimit"])
      delete line[name];
    Object.assign(line, { usage: [], flags: [] });
  }
  const risks = spec.advice.risks.filter(({ risk }) => risk === "noRequest");
  Object.assign(spec.advice, { risks, workloads: [] });
  Object.assign(spec, { changes: [], rejections: { groups: [], isCut: false, problem: null } });
  if (problem) spec.unknown = problem;
  return JSON.stringify(list);
}

/** The answer of `bounds.json`: a quota that shrinks, one that there is not yet, and a LimitRange. */
export const bounds = () => ({
  about: "Usage from Prometheus at monitoring/prometheus:9090, 2026-11-08T10:00:00Z to 2026-11-22T10:00:00Z, step 5m",
  source: { name: "Prometheus", isPartial: false },
  quotas: [
    {
      kind: "TenantQuota",
      name: "commerce",
      amounts: [
        {
          resource: "requests.cpu",
          used: "51",
          hard: "60",
          proposed: "48",
          unused: "9",
          unusedThen: "7400m",
          full: "2026-12-23",
          reason: "35 for 27 pods, 4 up to the maxima of autoscalers, 3 for growth in 30 days, and a tenth",
        },
      ],
    },
    {
      kind: "ResourceQuota",
      namespace: "payments",
      name: "team",
      amounts: [
        {
          resource: "pods",
          used: "15",
          hard: "30",
          proposed: "28",
          unused: "15",
          unusedThen: "13",
          reason:
            "15 for 15 pods, 9 up to the maxima of autoscalers, 2 for a rollout of deployment/gateway, and 2 for growth in 30 days",
        },
        {
          resource: "requests.cpu",
          used: "16200m",
          hard: "20",
          proposed: "21500m",
          unused: "3800m",
          unusedThen: "5300m",
          full: "2026-12-25",
          fullThen: "2027-01-11",
          reason: "16200m for 15 pods, 2 for a rollout of deployment/gateway, and 3300m for growth in 30 days",
        },
        {
          resource: "requests.memory",
          used: "20Gi",
          hard: "40Gi",
          proposed: "31Gi",
          unused: "20Gi",
          unusedThen: "11Gi",
          reason: "20Gi for 15 pods, 8Gi for a rollout of statefulset/ledger, and 3Gi for growth in 30 days",
        },
      ],
    },
    {
      kind: "ResourceQuota",
      namespace: "lab",
      name: "compute",
      amounts: [
        {
          resource: "requests.memory",
          used: "1Gi",
          proposed: "1229Mi",
          unusedThen: "205Mi",
          reason: "1Gi for 1 pod, and a fifth, since peaks and growth are not known",
        },
      ],
    },
  ],
  limitRanges: [
    {
      namespace: "payments",
      name: "limits",
      beside: ["other"],
      bounds: [
        {
          field: "default",
          resource: "cpu",
          reason: "deployment/gateway gateway runs without a CPU limit, which would only slow it down",
        },
        {
          field: "defaultRequest",
          resource: "cpu",
          proposed: "500m",
          reason: "the median of 4 containers, right-sized, is 500m",
        },
        {
          field: "max",
          resource: "memory",
          today: "32Gi",
          proposed: "16Gi",
          reason: "twice the largest limit, 8Gi of statefulset/ledger postgres",
        },
        {
          field: "maxLimitRequestRatio",
          resource: "memory",
          today: "4",
          proposed: "3",
          reason: "the largest ratio is 2.4 of deployment/gateway gateway",
        },
      ],
    },
  ],
  trial: {
    objects: 35,
    changed: 2,
    rejected: [
      {
        namespace: "ml",
        object: "deployment/trainer",
        reasons: [
          "exceeded quota: team, requested: requests.cpu=8, used: requests.cpu=19200m, limited: requests.cpu=20",
        ],
      },
    ],
  },
  notes: ["admission: in-tree plugins only; no Headroom policy in the cluster"],
  yaml: ["# commerce\n", "# team\nkind: ResourceQuota\n", "# compute\n", "# limits\n"],
});

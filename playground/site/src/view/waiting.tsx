// The shape of a view before the first answer: its tables without rows, and what is read now.

import { state } from "../state.js";

const several = (number: number) => Array.from({ length: number }, (_, index) => index);

export const Waiting = () => (
  <div class={`view waiting ${state.tab === "workloads" ? "workloads" : ""}`}>
    {state.tab === "overview" && (
      <div class="stats" aria-hidden="true">
        {several(5).map((index) => (
          <div key={index} class="card stat">
            <i class="wide" />
            <i />
          </div>
        ))}
      </div>
    )}
    <Rows told={`${state.progress || "Reading the cluster"}…`} />
  </div>
);

export const Rows = ({ told }: { told: string }) => (
  <div class="waiting">
    <p class="loading" role="status">
      {told}
    </p>
    <div class="card" aria-hidden="true">
      {several(8).map((index) => (
        <div key={index} class="blank-row">
          {several(4).map((cell) => (
            <i key={cell} />
          ))}
        </div>
      ))}
    </div>
  </div>
);

// The shape of a view before the first answer: its tables without rows, and what is read now.

import { state } from "../state.js";

const STATS = 5;
const ROWS = 8;

export function Waiting() {
  const { tab, progress } = state;
  return (
    <div class={`view waiting ${tab === "workloads" ? "workloads" : ""}`}>
      <p class="loading" role="status">
        {progress || "Reading the cluster"}…
      </p>
      {tab === "overview" && (
        <div class="stats" aria-hidden="true">
          {Array.from({ length: STATS }, (_, index) => (
            <div key={index} class="card stat">
              <i class="wide" />
              <i />
            </div>
          ))}
        </div>
      )}
      <div class="card" aria-hidden="true">
        {Array.from({ length: ROWS }, (_, index) => (
          <div key={index} class="blank-row">
            <i />
            <i />
            <i />
            <i />
          </div>
        ))}
      </div>
    </div>
  );
}

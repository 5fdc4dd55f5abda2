import { useQuery } from "@tanstack/react-query";
import { api, got, type Schemas } from "../api/client";
import { cluster, version } from "../api/queries";
import { count, span } from "../lib/format";
import { Head, Loading, Panel, Status, Time, Wrong } from "../ui/basics";
import { Ask } from "../ui/dialog";
import { say } from "../ui/toast";

type Node = Schemas["ClusterNode"];
type Shard = Schemas["ClusterShard"];

export function Cluster() {
  const found = useQuery(cluster());
  const about = useQuery(version());
  if (found.isPending) return <Loading lines={8} />;
  if (!found.data) return <Wrong error={found.error} retry={() => void found.refetch()} />;
  const { nodes, shards, node, at } = found.data;
  const away = shards.filter((shard) => !shard.alive).length;
  return (
    <>
      <Head
        title="Cluster"
        below={
          <>
            {nodes.length === 1 ? "One node" : `${nodes.length} nodes`}, {count(shards.length)} shards, seen <Time at={at} />
          </>
        }
      />
      <div className="stack">
        {away > 0 && (
          <div className="notice" data-tone="warn" role="status">
            <strong>{count(away)} shards have no live owner.</strong> Another node takes them when the lease of the former one has
            ended, within seconds. If it lasts, look whether a node with the role scheduler runs.
          </div>
        )}
        <Panel title="Nodes" flush>
          <div className="table-wrap">
            <table className="cards">
              <thead>
                <tr>
                  <th scope="col">Node</th>
                  <th scope="col">State</th>
                  <th scope="col" className="number">Shards</th>
                  <th scope="col" className="number">Oldest ready</th>
                  <th scope="col" className="number">Clock within</th>
                  <th scope="col">Last takeover</th>
                  <th scope="col">Lease until</th>
                  <th scope="col" aria-label="Actions" />
                </tr>
              </thead>
              <tbody>
                {nodes.map((one, index) => (
                  <NodeRow key={one.id} node={one} index={index} here={one.id === node} alone={nodes.length === 1} />
                ))}
              </tbody>
            </table>
          </div>
        </Panel>
        <Panel title="Shards" note="Each holds a part of the jobs and has one owner at a time. Number and colour say which node.">
          <ShardMap shards={shards} nodes={nodes} />
        </Panel>
        {about.data && (
          <Panel title="Store">
            <dl className="facts">
              <dt>Kind</dt>
              <dd>{about.data.store.kind}</dd>
              <dt>State</dt>
              <dd>
                {about.data.store.answers ? <Status status="active" text="answers" /> : <Status status="failed" text="does not answer" />}
              </dd>
              <dt>Durability</dt>
              <dd>{about.data.store.durability}</dd>
              {Object.entries(about.data.store.facts).map(([name, value]) => (
                <div key={name} style={{ display: "contents" }}>
                  <dt className="mono">{name}</dt>
                  <dd className="mono">{value}</dd>
                </div>
              ))}
              <dt>Time zones</dt>
              <dd>tzdb {about.data.tzdb}</dd>
              <dt>Version</dt>
              <dd>duly {about.data.version}</dd>
            </dl>
          </Panel>
        )}
      </div>
    </>
  );
}

function NodeRow({ node, index, here, alone }: { node: Node; index: number; here: boolean; alone: boolean }) {
  const about = node.about;
  const state = about?.leaving ? "leaving" : node.answers ? "active" : "lost";
  const text = about?.leaving ? "leaving" : node.answers ? "answers" : "does not answer";
  return (
    <tr>
      <td>
        <span className="row">
          <span className={`chip n${index % 8}`} style={{ color: "#fff" }}>
            {node.number}
          </span>
          <span className="mono break">{node.address ?? node.id}</span>
          {here && <span className="small muted">answered this page</span>}
        </span>
      </td>
      <td data-label="State">
        <Status status={state} text={text} />
      </td>
      <td data-label="Shards" className="number">
        {count(node.shards)}
        {about && about.shards_live !== about.shards_here ? ` (${count(about.shards_live)} ready)` : ""}
      </td>
      <td data-label="Oldest ready" className="number">
        {about ? span(about.oldest_ready_ms) : "–"}
      </td>
      <td data-label="Clock within" className="number">
        {about?.clock_within_ms ? span(about.clock_within_ms) : "–"}
      </td>
      <td data-label="Last takeover">
        <Time at={about?.last_takeover_at} />
      </td>
      <td data-label="Lease until">
        <Time at={node.lease_expires_at} />
      </td>
      <td className="number">
        {!alone && !about?.leaving && (
          <Ask
            button="Drain"
            buttonClass="small"
            title={`Drain node ${node.number}`}
            action="Give its shards away"
            danger
            onAct={async () => {
              await got(api.POST("/v1/cluster/drain", { body: { node: node.id } }));
              say(`Node ${node.number} gives its shards away.`);
            }}
          >
            <p>Its shards go to the other nodes, one write each; nothing is repeated. It takes none until it starts again.</p>
          </Ask>
        )}
      </td>
    </tr>
  );
}

function ShardMap({ shards, nodes }: { shards: Shard[]; nodes: Node[] }) {
  const index = new Map(nodes.map((node, at) => [node.id, at]));
  return (
    <div className="shards" role="img" aria-label={summary(shards, nodes)}>
      {shards.map((shard) => {
        const at = shard.owner && shard.alive ? index.get(shard.owner) : undefined;
        const owner = at === undefined ? undefined : nodes[at];
        const who = owner ? `node ${owner.number}` : "nobody";
        return (
          <span
            key={shard.shard}
            className={at === undefined ? "nobody" : `n${at % 8}`}
            title={`Shard ${shard.shard}: ${who}, epoch ${shard.epoch}, ${count(shard.commits)} commits`}
          >
            {owner?.number ?? "!"}
          </span>
        );
      })}
    </div>
  );
}

function summary(shards: Shard[], nodes: Node[]): string {
  const parts = nodes.map((node) => `node ${node.number} owns ${node.shards}`);
  const away = shards.filter((shard) => !shard.alive).length;
  return `${shards.length} shards: ${[...parts, ...(away > 0 ? [`${away} without a live owner`] : [])].join(", ")}`;
}

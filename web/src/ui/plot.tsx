// uPlot, kept in the theme's colours and the width of its place.
import { useEffect, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

export interface Line {
  label: string;
  /** A name of a colour of the theme, `--good-line`. */
  color: string;
  points?: boolean;
  fill?: boolean;
}

const HEIGHT = 166;

export function Plot(props: {
  label: string;
  lines: Line[];
  data: uPlot.AlignedData;
  format: (value: number) => string;
  /** The greatest value that is always inside. */
  least?: number;
}) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>(null);
  const latest = useRef(props);
  useEffect(() => {
    latest.current = props;
    plot.current?.setData(props.data);
  });
  useEffect(() => {
    const box = place.current;
    if (!box) return undefined;
    const make = () => {
      plot.current?.destroy();
      const style = getComputedStyle(document.documentElement);
      const color = (name: string) => style.getPropertyValue(name).trim();
      const axis = {
        stroke: color("--muted"),
        grid: { stroke: color("--line"), width: 1 },
        ticks: { show: false },
        font: `11px ${color("--sans")}`,
      };
      const { lines, data, least = 1 } = latest.current;
      plot.current = new uPlot(
        {
          width: Math.max(box.clientWidth, 120),
          height: HEIGHT,
          cursor: { y: false },
          legend: { show: false },
          padding: [8, 24, 0, 0],
          scales: { y: { range: (_, __, max) => [0, Math.max(least, (max || 0) * 1.1)] } },
          axes: [
            { ...axis, size: 24, values: (_, at) => at.map((one) => clock(one)), space: 70 },
            { ...axis, size: 50, values: (_, at) => at.map((one) => latest.current.format(one)), space: 36 },
          ],
          series: [
            {},
            ...lines.map((line) => ({
              label: line.label,
              stroke: color(line.color),
              width: 1.6,
              fill: line.fill ? `${color(line.color)}22` : undefined,
              points: { show: line.points ?? false, size: 5, fill: color(line.color) },
              paths: line.points ? () => null : undefined,
              spanGaps: true,
            })),
          ],
        },
        data,
        box,
      );
    };
    make();
    const sized = new ResizeObserver(() => plot.current?.setSize({ width: Math.max(box.clientWidth, 120), height: HEIGHT }));
    sized.observe(box);
    const themed = new MutationObserver(make);
    themed.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
    const system = matchMedia("(prefers-color-scheme: dark)");
    system.addEventListener("change", make);
    return () => {
      sized.disconnect();
      themed.disconnect();
      system.removeEventListener("change", make);
      plot.current?.destroy();
      plot.current = null;
    };
  }, []);
  return <div className="plot" ref={place} role="img" aria-label={props.label} />;
}

function clock(seconds: number): string {
  const at = new Date(seconds * 1_000);
  return [at.getHours(), at.getMinutes(), at.getSeconds()].map((n) => String(n).padStart(2, "0")).join(":");
}

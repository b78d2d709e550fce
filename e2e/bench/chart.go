package bench

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// Sizes of the chart, in SVG's units: panels side by side, and in each the area with the line.
const (
	panelWidth, panelHeight = 300, 240
	plotLeft, plotTop       = 50, 40
	plotWidth, plotHeight   = 220, 145
)

// SVG draws the lines, a panel for each: sizes on a logarithmic axis, costs on one that begins at zero.
func (g *Growth) SVG() string {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="11" fill="#333">`+"\n",
		panelWidth*len(g.Lines), panelHeight)
	b.WriteString(`<rect width="100%" height="100%" fill="#fff"/>` + "\n")
	for i, l := range g.Lines {
		fmt.Fprintf(&b, `<g transform="translate(%d,0)">`+"\n", i*panelWidth)
		l.draw(&b)
		b.WriteString("</g>\n")
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func (l Line) draw(b *strings.Builder) {
	top := axisTop(l.Points)
	text := func(x, y float64, anchor, s string) {
		fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>`+"\n", x, y, anchor, html.EscapeString(s))
	}
	text(plotLeft, plotTop-18, "start", fmt.Sprintf("%s, %s", l.Title, l.Unit))
	for _, part := range []float64{0, 0.5, 1} {
		y := plotTop + plotHeight*(1-part)
		fmt.Fprintf(b, `<path d="M%d %.1fh%d" stroke="#ddd"/>`+"\n", plotLeft, y, plotWidth)
		text(plotLeft-6, y+4, "end", fmt.Sprintf("%g", top*part))
	}
	var path []string
	for _, p := range l.Points {
		x, y := l.place(p, top)
		path = append(path, fmt.Sprintf("%.1f,%.1f", x, y))
		fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="3" fill="#26a"/>`+"\n", x, y)
		text(x, y-8, "middle", fmt.Sprintf("%.0f", p.Cost))
		text(x, plotTop+plotHeight+16, "middle", fmt.Sprint(p.X))
	}
	fmt.Fprintf(b, `<polyline points="%s" fill="none" stroke="#26a" stroke-width="1.5"/>`+"\n", strings.Join(path, " "))
	text(plotLeft+plotWidth/2, plotTop+plotHeight+34, "middle", l.X)
}

// place returns where a point is drawn.
func (l Line) place(p Point, top float64) (x, y float64) {
	first, last := math.Log(float64(l.Points[0].X)), math.Log(float64(l.Points[len(l.Points)-1].X))
	const inset = 20 // so that the outer points' texts have room
	part := 0.5
	if last > first {
		part = (math.Log(float64(p.X)) - first) / (last - first)
	}
	return plotLeft + inset + part*(plotWidth-2*inset), plotTop + plotHeight*(1-p.Cost/top)
}

// axisTop is a round number that no point is above, with room for its text: 1, 2, 4, 6 or 10 times a power of ten.
func axisTop(points []Point) float64 {
	most := 1.0
	for _, p := range points {
		most = max(most, p.Cost*1.15)
	}
	power := math.Pow(10, math.Floor(math.Log10(most)))
	for _, f := range []float64{1, 2, 4, 6} {
		if f*power >= most {
			return f * power
		}
	}
	return 10 * power
}

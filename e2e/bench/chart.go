package bench

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// Sizes of the chart, in SVG's units: rows of panels, and in each the area with the line.
const (
	inRow                   = 3
	panelWidth, panelHeight = 300, 240
	plotLeft, plotTop       = 50, 40
	plotWidth, plotHeight   = 220, 145
)

// SVG draws the lines, a panel for each: sizes on a logarithmic axis, costs on one that begins at zero, or that is logarithmic
// too if they differ tenfold.
func (g *Growth) SVG() string {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="11" fill="#333">`+"\n",
		panelWidth*min(inRow, len(g.Lines)), panelHeight*((len(g.Lines)+inRow-1)/inRow))
	b.WriteString(`<rect width="100%" height="100%" fill="#fff"/>` + "\n")
	for i, l := range g.Lines {
		fmt.Fprintf(&b, `<g transform="translate(%d,%d)">`+"\n", i%inRow*panelWidth, i/inRow*panelHeight)
		l.draw(&b)
		b.WriteString("</g>\n")
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func (l Line) draw(b *strings.Builder) {
	costs := axisOf(l.Points)
	text := func(x, y float64, anchor, s string) {
		fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>`+"\n", x, y, anchor, html.EscapeString(s))
	}
	text(plotLeft-40, plotTop-18, "start", fmt.Sprintf("%s, %s", l.Title, l.Unit))
	for _, mark := range costs.marks() {
		y := costs.place(mark)
		fmt.Fprintf(b, `<path d="M%d %.1fh%d" stroke="#ddd"/>`+"\n", plotLeft, y, plotWidth)
		text(plotLeft-6, y+4, "end", fmt.Sprintf("%g", mark))
	}
	var path []string
	for _, p := range l.Points {
		x, y := l.across(p), costs.place(p.Cost)
		path = append(path, fmt.Sprintf("%.1f,%.1f", x, y))
		fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="3" fill="#26a"/>`+"\n", x, y)
		text(x, y-8, "middle", number(p.Cost, ""))
		text(x, plotTop+plotHeight+16, "middle", fmt.Sprint(p.X))
	}
	fmt.Fprintf(b, `<polyline points="%s" fill="none" stroke="#26a" stroke-width="1.5"/>`+"\n", strings.Join(path, " "))
	text(plotLeft+plotWidth/2, plotTop+plotHeight+34, "middle", l.X)
}

// across returns where a point is drawn, from the left.
func (l Line) across(p Point) float64 {
	first, last := math.Log(float64(l.Points[0].X)), math.Log(float64(l.Points[len(l.Points)-1].X))
	const inset = 20 // so that the outer points' texts have room
	part := 0.5
	if last > first {
		part = (math.Log(float64(p.X)) - first) / (last - first)
	}
	return plotLeft + inset + part*(plotWidth-2*inset)
}

// axis is the costs from the lowest place of the area to the highest. It is logarithmic unless it begins at zero.
type axis struct{ bottom, top float64 }

func axisOf(points []Point) axis {
	least, most := math.Inf(1), 0.0
	for _, p := range points {
		least, most = min(least, p.Cost), max(most, p.Cost)
	}
	if least <= 0 || most < 10*least {
		return axis{0, axisTop(points)}
	}
	return axis{math.Pow(10, math.Floor(math.Log10(least))), math.Pow(10, math.Ceil(math.Log10(most*1.15)))}
}

// place returns where a cost is drawn, from above.
func (a axis) place(cost float64) float64 {
	part := cost / a.top
	if a.bottom > 0 {
		part = math.Log(cost/a.bottom) / math.Log(a.top/a.bottom)
	}
	return plotTop + plotHeight*(1-part)
}

// marks returns the costs that have a line across.
func (a axis) marks() (list []float64) {
	if a.bottom == 0 {
		return []float64{0, a.top / 2, a.top}
	}
	for mark := a.bottom; mark < 1.1*a.top; mark *= 10 {
		list = append(list, mark)
	}
	return list
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

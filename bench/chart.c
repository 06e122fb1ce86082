/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/chart.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

/* In pixels. */
enum { PANEL = 460, WIDTH = 370, HEIGHT = 260, LEFT = 62, TOP = 116, TOTAL_HEIGHT = 440, DOT = 3, TICKS = 5 };

/* Without CSS variables: not every SVG viewer knows them. */
static const char STYLE[] =
    "<style>\n"
    "text { font: 12px system-ui, 'DejaVu Sans', sans-serif; fill: #1f2328 }\n"
    ".title { font-size: 16px; font-weight: 600 } .panel { font-size: 13px; font-weight: 600 }\n"
    ".end { text-anchor: end } .middle { text-anchor: middle }\n"
    "path { fill: none; stroke-width: 2; stroke-linejoin: round } .limit { stroke-dasharray: 6 4 }\n"
    ".grid { stroke: #d9dee3; stroke-width: 1 } .paper { fill: #ffffff } .faint { fill: #59636e }\n"
    ".s0 { stroke: #0969da } .s1 { stroke: #bc4c00 } .d0 { fill: #0969da } .d1 { fill: #bc4c00 }\n"
    "</style>\n";

/* ---- text ---- */

static void write_text(FILE *file, const char *text)
{
    for (; *text; text++)
        switch (*text) {
        case '&':
            fputs("&amp;", file);
            break;
        case '<':
            fputs("&lt;", file);
            break;
        default:
            fputc((unsigned char)*text < 0x20 ? ' ' : *text, file);
        }
}

static void write_line(FILE *file, double x, double y, const char *class, const char *text)
{
    fprintf(file, "<text x=\"%.1f\" y=\"%.1f\" class=\"%s\">", x, y, class);
    write_text(file, text);
    fputs("</text>\n", file);
}

/* ---- scales ---- */

/* The smallest round step that reaches `most` in TICKS steps. */
static double tick_step(double most)
{
    static const double steps[] = {1, 1.5, 2, 2.5, 3, 4, 5, 6, 8};
    const double power = pow(10, floor(log10(most / TICKS)));
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        if (steps[i] * power * TICKS >= most)
            return steps[i] * power;
    return 10 * power;
}

static double most_value(const chart *c, const chart_panel *panel)
{
    double most = 0;
    for (size_t i = 0; i < panel->n_curves; i++)
        for (size_t d = 0; d < c->n_depths; d++)
            most = fmax(most, panel->curves[i].values[d]); /* fmax ignores NAN */
    return most > 0 ? most : 1;
}

/* Depths are placed by their logarithm; 0 two octaves left of the next. */
static double octave(const chart *c, size_t i)
{
    const double first = c->depths[0] > 0 ? log2(c->depths[0]) : c->n_depths > 1 ? log2(c->depths[1]) - 2 : 0;
    return c->depths[i] > 0 ? log2(c->depths[i]) - first : 0;
}

static double place_x(const chart *c, size_t i)
{
    const double all = octave(c, c->n_depths - 1);
    return LEFT + (all > 0 ? octave(c, i) / all : 0.5) * WIDTH;
}

static double place_y(double value, double top)
{
    return TOP + HEIGHT - value / top * HEIGHT;
}

/* ---- drawing ---- */

static void write_axes(FILE *file, const chart *c, double top)
{
    char label[32];
    for (int i = 0; i <= TICKS; i++) {
        const double value = top * i / TICKS, y = place_y(value, top);
        fprintf(file, "<path class=\"grid\" d=\"M%d %.1fH%d\"/>\n", LEFT, y, LEFT + WIDTH);
        snprintf(label, sizeof label, "%g", value);
        write_line(file, LEFT - 8, y + 4, "faint end", label);
    }
    for (size_t i = 0; i < c->n_depths; i++) {
        const uint32_t depth = c->depths[i];
        snprintf(label, sizeof label, depth % 1024 || !depth ? "%" PRIu32 : "%" PRIu32 "K",
                 depth % 1024 ? depth : depth / 1024);
        write_line(file, place_x(c, i), TOP + HEIGHT + 20, "faint middle", label);
    }
    write_line(file, LEFT + WIDTH / 2.0, TOP + HEIGHT + 42, "faint middle", "tokens in the cache");
}

static void write_points(FILE *file, const chart *c, const chart_curve *curve, size_t colour, double top)
{
    char label[32];
    for (size_t i = 0; i < c->n_depths; i++) {
        const double value = curve->values[i], x = place_x(c, i), y = place_y(value, top);
        if (isnan(value))
            continue;
        fprintf(file, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%d\" class=\"d%zu\"/>\n", x, y, DOT, colour);
        snprintf(label, sizeof label, value < 9.95 ? "%.2g" : value < 99.5 ? "%.1f" : "%.0f", value);
        write_line(file, i == 0 ? x : x + 6, y - 9, i == 0 ? "middle" : "end", label); /* left of a rising curve */
    }
}

static void write_curve(FILE *file, const chart *c, const chart_curve *curve, size_t colour, double top)
{
    bool is_begun = false;
    fprintf(file, "<path class=\"s%zu%s\" d=\"", colour, curve->is_limit ? " limit" : "");
    for (size_t i = 0; i < c->n_depths; i++)
        if (!isnan(curve->values[i])) {
            fprintf(file, "%c%.1f %.1f", is_begun ? 'L' : 'M', place_x(c, i), place_y(curve->values[i], top));
            is_begun = true;
        }
    fputs("\"/>\n", file);
    if (!curve->is_limit)
        write_points(file, c, curve, colour, top);
}

static void write_legend(FILE *file, const chart_panel *panel)
{
    int x = LEFT;
    for (size_t i = 0; i < panel->n_curves; i++) {
        const chart_curve *curve = &panel->curves[i];
        fprintf(file, "<path class=\"s%zu%s\" d=\"M%d %dh24\"/>\n", i, curve->is_limit ? " limit" : "", x, TOP - 18);
        write_line(file, x + 30, TOP - 14, "faint", curve->label);
        x += 150;
    }
}

static void write_panel(FILE *file, const chart *c, size_t number)
{
    const chart_panel *panel = &c->panels[number];
    const double top = tick_step(most_value(c, panel)) * TICKS;
    fprintf(file, "<g transform=\"translate(%zu 0)\">\n", number * PANEL);
    write_line(file, LEFT, TOP - 36, "panel", panel->title);
    write_legend(file, panel);
    write_axes(file, c, top);
    for (size_t i = panel->n_curves; i-- > 0;)
        write_curve(file, c, &panel->curves[i], i, top);
    fputs("</g>\n", file);
}

static void write_chart(FILE *file, const chart *c)
{
    const size_t width = c->n_panels * PANEL + 8;
    fprintf(file, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %zu %d\" width=\"%zu\" height=\"%d\">\n",
            width, TOTAL_HEIGHT, width, TOTAL_HEIGHT);
    fputs(STYLE, file);
    fputs("<rect width=\"100%\" height=\"100%\" class=\"paper\"/>\n", file);
    write_line(file, 20, 28, "title", c->title);
    write_line(file, 20, 48, "faint", c->subtitle);
    for (size_t i = 0; i < c->n_panels; i++)
        write_panel(file, c, i);
    fputs("</svg>\n", file);
}

bool chart_write(const chart *c, const char *path)
{
    assert(c->n_depths > 0 && c->n_panels > 0);
    FILE *file = fopen(path, "w");
    if (!file)
        return false;
    write_chart(file, c);
    const bool is_written = !ferror(file);
    const int error = errno;
    if (fclose(file) != 0)
        return false;
    errno = error;
    return is_written;
}

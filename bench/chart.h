/* SPDX-License-Identifier: Apache-2.0 */
/* Curves by depth in tokens, as an SVG file. */
#ifndef QSA_BENCH_CHART_H
#define QSA_BENCH_CHART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct chart_curve {
    const char *label;
    const double *values; /* by depth; NAN: no point */
    bool is_limit;        /* drawn dashed and without numbers */
} chart_curve;

enum { CHART_MAX_CURVES = 2 };

/* One of the diagrams side by side. */
typedef struct chart_panel {
    const char *title;
    chart_curve curves[CHART_MAX_CURVES];
    size_t n_curves;
} chart_panel;

typedef struct chart {
    const char *title, *subtitle;
    const uint32_t *depths; /* ascending */
    size_t n_depths;
    const chart_panel *panels;
    size_t n_panels;
} chart;

/* Writes the file; false with errno. */
bool chart_write(const chart *c, const char *path);

#endif

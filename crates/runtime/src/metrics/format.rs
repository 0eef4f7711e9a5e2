//! The two text formats of a metrics page, and which of them a request gets. They differ in media
//! type, in the names of counter families, in escapes, and in the last line.

/// A text format that Prometheus reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpositionFormat {
    /// [OpenMetrics 1.0](https://prometheus.io/docs/specs/om/open_metrics_spec/).
    OpenMetrics,
    /// [Prometheus text 0.0.4](https://prometheus.io/docs/instrumenting/exposition_formats/), which
    /// every scraper and `promtool` reads.
    PrometheusText,
}

impl ExpositionFormat {
    /// The format that `accept` headers choose (RFC 9110, section 12.5.1): OpenMetrics if they name
    /// a version that we write and prefer it no less than plain text.
    pub(crate) fn accepted<'a>(headers: impl Iterator<Item = &'a str>) -> Self {
        let (mut open_metrics, mut plain) = (0.0_f32, 0.0_f32);
        for range in headers.flat_map(|header| header.split(',')) {
            let mut parts = range.split(';').map(str::trim);
            let media_type = parts.next().unwrap_or_default().to_ascii_lowercase();
            let (mut quality, mut version) = (1.0, "");
            for (name, value) in parts.filter_map(|part| part.split_once('=')) {
                let value = value.trim().trim_matches('"');
                if name.trim_end().eq_ignore_ascii_case("q") {
                    quality = value.parse().ok().filter(|q| (0.0..=1.0).contains(q)).unwrap_or(0.0);
                } else if name.trim_end().eq_ignore_ascii_case("version") {
                    version = value;
                }
            }
            match (&*media_type, version) {
                ("application/openmetrics-text", "" | "0.0.1" | "1.0.0") => {
                    open_metrics = open_metrics.max(quality);
                }
                ("text/plain", "" | "0.0.4") | ("text/*", _) => plain = plain.max(quality),
                _ => (),
            }
        }
        if open_metrics > 0.0 && open_metrics >= plain {
            Self::OpenMetrics
        } else {
            Self::PrometheusText
        }
    }

    pub(crate) const fn media_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::PrometheusText => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// The name that describes a counter with the samples `name` and `total`.
    pub(super) fn family(self, name: &str, total: &str) -> String {
        match self {
            Self::OpenMetrics => name.to_owned(),
            Self::PrometheusText => format!("{name}{total}"),
        }
    }

    pub(super) fn escaped_help(self, help: &str) -> String {
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        match self {
            Self::OpenMetrics => help.replace('"', "\\\""),
            Self::PrometheusText => help,
        }
    }
}

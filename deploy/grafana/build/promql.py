# SPDX-License-Identifier: Apache-2.0
"""Pieces of PromQL that the dashboards share."""

MAC = 'instance=~"$instance"'
JOB = f'{MAC}, job_id=~"$job_id"'
RATE = "$__rate_interval"


def of_mac(metric, *matchers):
    """The series of the chosen Macs."""
    return f"{metric}{{{', '.join((MAC, *matchers))}}}"


def of_job(metric):
    """The series of the chosen job."""
    return f"{metric}{{{JOB}}}"


def beside_job(expression):
    """The series of the chosen job's Mac, as long as the job has series."""
    return f"{expression} and on (instance) {of_job('mpsd_job_info')}"


def rate(metric, *by, window=RATE):
    return f"sum by ({', '.join(by)}) (rate({of_mac(metric)}[{window}]))"


def count(metric, *by, matchers=()):
    """How often per step of a panel."""
    return (f"sum by ({', '.join(by)}) "
            f"(increase({of_mac(metric, *matchers)}[$__interval]))")


def some(expression):
    """Omits series that are 0, if most are and there are many names."""
    return f"{expression} > 0"


def quantile(share, histogram, *by, window=RATE):
    return (f"histogram_quantile({share}, sum by ({', '.join(('le', *by))}) "
            f"(rate({of_mac(histogram + '_bucket')}[{window}])))")


def by_job(metric):
    """A gauge of jobs, for a table with a row per job."""
    return f"max by (instance, job_id) ({of_mac(metric)})"


def reasons(metric):
    """A series of value 1 for each reason that holds, else one of value 0 for
    the reason "nothing"."""
    return (f"{of_mac(metric)} == 1 or label_replace("
            f"max({of_mac(metric)}) == 0, "
            '"reason", "nothing", "", "")')

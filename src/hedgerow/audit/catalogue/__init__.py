"""What the auditor attacks: every mechanism, estimator and protocol with a privacy claim."""

from hedgerow.audit.catalogue.boosting import boosted_models
from hedgerow.audit.catalogue.broken import broken_mechanisms
from hedgerow.audit.catalogue.curated import private_trees
from hedgerow.audit.catalogue.hidden import hidden_trees
from hedgerow.audit.catalogue.hidden_numbers import numbers_and_opened_trees
from hedgerow.audit.catalogue.mechanisms import mechanisms
from hedgerow.audit.catalogue.median import median_forests
from hedgerow.audit.catalogue.noise import three_servers
from hedgerow.audit.catalogue.pivot import peer_views
from hedgerow.audit.catalogue.pivot_noise import trees_of_peers
from hedgerow.audit.catalogue.topdown import topdown_trees

FACTORIES = (
    mechanisms,
    broken_mechanisms,
    three_servers,
    hidden_trees,
    numbers_and_opened_trees,
    trees_of_peers,
    private_trees,
    median_forests,
    boosted_models,
    topdown_trees,
    peer_views,
)

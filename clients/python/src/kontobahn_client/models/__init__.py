"""Bodies and answers, by the names of the API. Everything can be imported from here."""

from kontobahn_client.models.assistants import *
from kontobahn_client.models.auth import *
from kontobahn_client.models.banking import *
from kontobahn_client.models.books import *
from kontobahn_client.models.common import *
from kontobahn_client.models.events import *
from kontobahn_client.models.mobility import *
from kontobahn_client.models.payables import *
from kontobahn_client.models.reconciliation import *
from kontobahn_client.models.reports import *

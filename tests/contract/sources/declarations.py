"""Declared mappings of sources that have no decoder of their own."""

from typing import Any

MOLLIE: dict[str, Any] = {
    "name": "mollie",
    "kind": "resource",
    "ignore": [
        *("balance*", "business-*", "event", "order", "payment-link", "sales-*", "settlement"),
        *("unmatched-*", "capture", "chargeback", "dispute", "refund"),
    ],
    "mappings": [
        {
            "when": ["payment"],
            "source": "psp",
            "payment_id": "metadata.payment_id",
            "psp": "=mollie",
            "psp_reference": "id",
            "status": {
                "path": "status",
                "values": {
                    "open": "pending",
                    "pending": "pending",
                    "authorized": "authorised",
                    "paid": "succeeded",
                    "canceled": "cancelled",
                    "expired": "expired",
                    "failed": "failed",
                },
            },
            "money": {"unit": "decimal", "currency": "amount.currency"},
            "amount": "amount.value",
            "captured": "amountCaptured.value",
            "refunded": "amountRefunded.value",
            "disputed": "amountChargedBack.value",
            "version": {
                "paths": ["createdAt", "authorizedAt", "paidAt", "canceledAt", "failedAt"],
                "form": "rfc3339",
            },
            "time": {"path": "createdAt", "form": "rfc3339"},
        }
    ],
}

_PAYPAL = {
    "source": "psp",
    "payment_id": "resource.custom_id",
    "psp": "=paypal",
    "psp_reference": "resource.parent_payment",
    "money": {"unit": "decimal", "currency": "resource.amount.currency"},
    "event_id": "id",
    "version": {"paths": ["create_time"], "form": "rfc3339"},
    "time": {"path": "create_time", "form": "rfc3339"},
}
PAYPAL: dict[str, Any] = {
    "name": "paypal",
    "kind": "event_type",
    "ignore": [
        *("BILLING.*", "MERCHANT.*", "INVOICING.*", "PAYMENT.PAYOUTS*"),
        *("CUSTOMER.DISPUTE.*", "RISK.DISPUTE.*"),
    ],
    "mappings": [
        {
            **_PAYPAL,
            "when": ["PAYMENT.CAPTURE.REFUNDED", "PAYMENT.SALE.REFUNDED"],
            "refunded": "resource.total_refunded_amount.total",
        },
        {
            **_PAYPAL,
            "when": ["PAYMENT.AUTHORIZATION.*", "PAYMENT.CAPTURE.*", "PAYMENT.SALE.*"],
            "status": {
                "path": "event_type",
                "values": {
                    "PAYMENT.AUTHORIZATION.CREATED": "authorised",
                    "PAYMENT.CAPTURE.COMPLETED": "succeeded",
                    "PAYMENT.CAPTURE.DENIED": "failed",
                    "PAYMENT.SALE.PENDING": "pending",
                    "PAYMENT.SALE.COMPLETED": "succeeded",
                    "PAYMENT.SALE.DENIED": "failed",
                },
            },
            "amount": "resource.amount.total",
        },
    ],
}

IYZICO: dict[str, Any] = {
    "name": "iyzico",
    "mappings": [
        {
            "source": "psp",
            "payment_id": "basketId",
            "psp": "=iyzico",
            "psp_reference": "paymentId",
            "status": {
                "path": "status",
                "values": {"success": "succeeded", "failure": "failed"},
            },
            "money": {"unit": "number", "currency": "currency"},
            "amount": "paidPrice",
            "failure_code": "errorCode",
            "version": {"paths": ["systemTime"], "form": "epoch_millis"},
            "time": {"path": "systemTime", "form": "epoch_millis"},
        }
    ],
}

SAP: dict[str, Any] = {
    "name": "s4",
    "kind": "type",
    "ignore": ["sap.s4.beh.businesspartner.*", "sap.s4.beh.marketingcampaign.*"],
    "mappings": [
        {
            "when": ["itelo.tms.ticket.v1.*"],
            "source": "erp",
            "payment_id": "subject",
            "order_id": "data.ID",
            "status": {"path": "=new", "values": {"new": "pending"}},
            "money": {"unit": "decimal", "currency": "data.Currency"},
            "amount": "data.GrossAmount",
            "event_id": "id",
            "version": {"paths": ["time"], "form": "sql"},
            "time": {"path": "time", "form": "sql"},
        }
    ],
}

"""The page's jobs, for tests: cards, notices, and the button that multiplies."""

CARD = "document.querySelector('[data-job=\"{}\"]')"
LIVE = "document.querySelector('.live').textContent === 'Live'"
NOTICE = "document.getElementById('notice').textContent"
OLDER = "[...document.querySelectorAll('button')].find((one) => one.textContent === 'Older jobs')"


def multiply(page):
    """Press Multiply."""
    page.run("document.getElementById('product').requestSubmit(); null")
